//! Connections over real sockets: what an open one costs, and when the server closes it.

use std::net::SocketAddr;
use std::time::Duration;

use server::http::connections::{self, ConnectionLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::service::Service;

const HALF_A_REQUEST: &[u8] = b"GET /api/v1/health HTTP/1.1\r\nhost: 127.0.0.1\r\n";

async fn listen(service: &Service, limits: ConnectionLimits) -> (SocketAddr, DropGuard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let closing = CancellationToken::new();
    let serving = connections::serve(
        listener,
        None,
        service.router.clone(),
        limits,
        closing.clone(),
    );
    tokio::spawn(serving);
    (address, closing.drop_guard())
}

async fn connect(address: SocketAddr, sent: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent).await.unwrap();
    stream
}

/// The process's resident memory, bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[tokio::test]
async fn a_connection_without_a_whole_request_is_closed() {
    let service = Service::new().await;
    let header_timeout = Duration::from_millis(50);
    let (address, _serving) = listen(&service, ConnectionLimits { header_timeout }).await;
    let whole = [HALF_A_REQUEST, b"\r\n"].concat();
    for sent in [b"".as_slice(), HALF_A_REQUEST, &whole] {
        let mut stream = connect(address, sent).await;
        // The end of the stream, after the answers to what was asked.
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer.contains("200 OK"), sent == whole, "{answer}");
    }
}

#[tokio::test]
async fn an_open_connection_holds_no_copy_of_the_api_description() {
    const CONNECTIONS: usize = 200;
    const BYTES_EACH: usize = 200 << 10;
    let service = Service::new().await;
    let (address, _serving) = listen(&service, ConnectionLimits::default()).await;
    let mut open = Vec::new();
    let before = resident();
    for _ in 0..CONNECTIONS {
        let mut stream = connect(
            address,
            b"GET /api/v1/health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        )
        .await;
        let mut first = [0; 15];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        open.push(stream);
    }
    let each = resident().saturating_sub(before) / CONNECTIONS;
    assert!(each < BYTES_EACH, "{each} bytes for each connection");
}
