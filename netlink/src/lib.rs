//! A read-only view of the kernel's links, addresses, rules and routes.
