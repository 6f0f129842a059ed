//! A blocking connection to a broker, which sends and receives frames as they are.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// No answer takes this long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// An open connection.
pub struct Socket {
    /// The stream, for who wants to look at its state.
    pub stream: TcpStream,
}

impl Socket {
    /// Connects.
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the broker listens");
        stream.set_nodelay(true).expect("a TCP socket");
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).expect("a TCP socket");
        Self { stream }
    }

    /// Sends bytes: a frame, some of them, or a part of one. An error when the broker has ended the
    /// connection.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.stream).write_all(bytes)
    }

    /// The next answer, without its length.
    pub fn receive(&self) -> Vec<u8> {
        let mut length = [0; 4];
        (&self.stream).read_exact(&mut length).expect("the broker answers");
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        (&self.stream).read_exact(&mut answer).expect("the broker answers");
        answer
    }
}
