//! The only writer: carries out one action at a time and reports what was read back.

use tokio::sync::mpsc;
use tsunaro_localapi::{Error, LocalApi};
use tsunaro_model::plan::{Action, Refusal, RefusalKind};
use tsunaro_model::tailnet::{Prefs, PrefsChange};

use crate::event::Event;

/// Carries out actions until the main loop is gone.
///
/// # Errors
/// When the main loop is gone.
pub(crate) async fn run(
    api: LocalApi,
    mut actions: mpsc::Receiver<Action>,
    events: mpsc::Sender<Event>,
) -> anyhow::Result<()> {
    while let Some(action) = actions.recv().await {
        let result = apply(&api, &action).await.map_err(|error| refusal(&error));
        events.send(Event::Applied { action, result }).await?;
    }
    anyhow::bail!("the main loop is gone")
}

fn refusal(error: &Error) -> Refusal {
    let kind = match error {
        Error::Locked { .. } => RefusalKind::Locked,
        Error::Forbidden { .. } => RefusalKind::NotOperator,
        _ => RefusalKind::Other,
    };
    Refusal {
        kind,
        why: error.to_string(),
    }
}

async fn apply(api: &LocalApi, action: &Action) -> Result<Option<Prefs>, Error> {
    match action {
        Action::SetRoutes(routes) => {
            let change = PrefsChange {
                advertise_routes: Some(routes.clone()),
                ..PrefsChange::default()
            };
            api.change_prefs(&change).await.map(Some)
        }
        Action::MendPrefs(change) => api.change_prefs(change).await.map(Some),
        Action::LogIn(key) => {
            api.start(key).await?;
            api.login_interactive().await?;
            Ok(None)
        }
        Action::LogInAgain(key) => {
            api.start(key).await?;
            Ok(None)
        }
    }
}
