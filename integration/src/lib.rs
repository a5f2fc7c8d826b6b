//! A real tailnet on one machine, for tests.
