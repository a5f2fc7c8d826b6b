//! Cuts a stream of bytes into lines of bounded length.

use bytes::{Buf, Bytes, BytesMut};

/// Longest line of the bus, in bytes. Three thousand advertised routes make one of about 60 kB.
pub(crate) const MAX_LINE: usize = 4 << 20;

/// A line is longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineTooLong;

/// Bytes that arrived, up to one line of which is incomplete.
#[derive(Debug)]
pub(crate) struct Lines {
    buffer: BytesMut,
    /// So many bytes at the start of the buffer are known to hold no line feed.
    searched: usize,
    limit: usize,
}

impl Lines {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            limit,
        }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole line, without its line feed.
    pub(crate) fn next_line(&mut self) -> Result<Option<Bytes>, LineTooLong> {
        let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
        match unsearched.iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                let length = self.searched + at;
                if length > self.limit {
                    return Err(LineTooLong);
                }
                let line = self.buffer.split_to(length).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                Ok(Some(line))
            }
            None if self.buffer.len() > self.limit => Err(LineTooLong),
            None => {
                self.searched = self.buffer.len();
                Ok(None)
            }
        }
    }

    /// An incomplete line is left.
    pub(crate) fn is_partial(&self) -> bool {
        !self.buffer.is_empty()
    }
}

#[cfg(test)]
mod tests;
