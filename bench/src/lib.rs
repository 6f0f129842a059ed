//! Load and measurement for Millrace; sees a broker only through the protocol.
