//! The API server's client with limits: no answer, and no line of a watch, may fill the memory, and none
//! is waited for without end, also not over a connection of which only one half is left.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use http::{Request, Response};
use hyper::body::{Body, Frame, SizeHint};
use kube::Client;
use kube::client::{Body as KubeBody, ClientBuilder};
use tokio::time::{Instant, Sleep, sleep_until};
use tower::{BoxError, Service, layer::layer_fn};

/// Longest answer, and longest line of a watch. A page of 500 ConfigMaps of half a MiB would be longer,
/// and there is no such thing: etcd takes 1.5 MiB a piece, and ours have a few KiB.
const MAX: usize = 256 << 20;

/// A whole answer is there by then. The API server itself gives up after a minute, but a step of ours
/// need not wait so long.
const ANSWER: Duration = Duration::from_secs(20);
/// Between two lines of a watch: longer than a watch, which the API server ends after five minutes at
/// our request. What is silent for longer has lost its other half.
const SILENCE: Duration = Duration::from_secs(330);

/// A client for this configuration.
pub(crate) fn client(config: kube::Config) -> kube::Result<Client> {
    let builder = ClientBuilder::try_from(config)?;
    Ok(builder
        .with_layer(&layer_fn(|inner| Bounded { inner, max: MAX }))
        .build())
}

struct Bounded<S> {
    inner: S,
    max: usize,
}

impl<S, B> Service<Request<KubeBody>> for Bounded<S>
where
    S: Service<Request<KubeBody>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + 'static,
    B: 'static,
{
    type Response = Response<Limited<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<KubeBody>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let per_line = query.split('&').any(|word| word == "watch=true");
        let max = self.max;
        let end = Instant::now() + ANSWER;
        let call = self.inner.call(request);
        async move {
            let response = tokio::time::timeout_at(end, call)
                .await
                .map_err(|_| silence(ANSWER))?
                .map_err(Into::into)?;
            let end = if per_line {
                Instant::now() + SILENCE
            } else {
                end
            };
            Ok(response.map(|inner| Limited {
                inner,
                per_line,
                read: 0,
                max,
                end: Box::pin(sleep_until(end)),
            }))
        }
        .boxed()
    }
}

/// A body that fails when it gets too long.
struct Limited<B> {
    inner: B,
    per_line: bool,
    read: usize,
    max: usize,
    /// When it is not waited for any longer.
    end: Pin<Box<Sleep>>,
}

fn silence(after: Duration) -> BoxError {
    format!("no answer of the API server within {} s", after.as_secs()).into()
}

impl<B> Body for Limited<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if polled.is_pending() && self.end.as_mut().poll(context).is_ready() {
            let after = if self.per_line { SILENCE } else { ANSWER };
            return Poll::Ready(Some(Err(silence(after))));
        }
        let frame = match ready!(polled) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        if let Some(data) = frame.data_ref() {
            let line = data.iter().rev().position(|byte| *byte == b'\n');
            self.read = match line.filter(|_| self.per_line) {
                Some(after) => after,
                None => self.read.saturating_add(data.len()),
            };
        }
        if self.per_line {
            self.end.as_mut().reset(Instant::now() + SILENCE);
        }
        if self.read > self.max {
            let error = format!(
                "the API server's answer is longer than {} MiB",
                self.max >> 20
            );
            return Poll::Ready(Some(Err(error.into())));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::{BodyExt, StreamBody};
    use tower::service_fn;

    use super::*;

    const PIECE: usize = 1 << 20;

    /// MiB that are read of an endless answer until it fails; None if a hundred came.
    async fn read(path: &str, piece: fn() -> Bytes) -> Option<usize> {
        let inner = service_fn(move |_: Request<KubeBody>| async move {
            let endless = stream::repeat_with(move || Ok::<_, Infallible>(Frame::data(piece())));
            Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(endless))))
        });
        let mut bounded = Bounded {
            inner,
            max: 16 << 20,
        };
        let request = Request::get(path).body(KubeBody::empty()).unwrap();
        let mut body = bounded.call(request).await.unwrap().into_body();
        let mut pieces = 0;
        loop {
            match body.frame().await.unwrap() {
                Ok(_) if pieces == 100 => return None,
                Ok(_) => pieces += 1,
                Err(error) => {
                    assert!(error.to_string().contains("longer than 16 MiB"), "{error}");
                    return Some(pieces);
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_without_end() {
        let never = service_fn(|_: Request<KubeBody>| {
            std::future::pending::<Result<Response<http_body_util::Full<Bytes>>, Infallible>>()
        });
        let mut bounded = Bounded {
            inner: never,
            max: 1,
        };
        let request = || {
            Request::get("/api/v1/secrets/a")
                .body(KubeBody::empty())
                .unwrap()
        };
        let began = Instant::now();
        assert!(bounded.call(request()).await.is_err());
        assert_eq!(began.elapsed().as_secs(), ANSWER.as_secs());
        // Headers come, and the body never does.
        for (path, limit) in [
            ("/api/v1/secrets/a", ANSWER),
            ("/api/v1/pods?watch=true", SILENCE),
        ] {
            let inner = service_fn(|_: Request<KubeBody>| async {
                let silent = stream::pending::<Result<Frame<Bytes>, Infallible>>();
                Ok::<_, Infallible>(Response::new(StreamBody::new(silent)))
            });
            let mut bounded = Bounded { inner, max: 1 };
            let request = Request::get(path).body(KubeBody::empty()).unwrap();
            let began = Instant::now();
            let mut body = bounded.call(request).await.unwrap().into_body();
            assert!(body.frame().await.unwrap().is_err());
            assert_eq!(began.elapsed().as_secs(), limit.as_secs(), "{path}");
        }
    }

    #[tokio::test]
    async fn an_answer_without_end_fails_and_a_watch_may_last_as_long_as_its_lines_end() {
        let dots = || Bytes::from(vec![b'.'; PIECE]);
        let lines = || Bytes::from([vec![b'.'; PIECE - 1], vec![b'\n']].concat());
        assert_eq!(read("/api/v1/secrets/a", dots).await, Some(16));
        assert_eq!(read("/api/v1/secrets/a", lines).await, Some(16));
        assert_eq!(read("/api/v1/pods?a=b&watch=true", dots).await, Some(16));
        assert_eq!(read("/api/v1/pods?watch=true", lines).await, None);
    }
}
