//! What answers a question and why, for people: the same walk as the server's, in words.
