//! The floor: what any program between the two sockets must spend. For each call one connection
//! from the caller's side and one to the provider's, and bytes copied both ways as they come. No
//! codec, no JSON, no clock, no state.

use clap::Args;
use std::{io, net::SocketAddr, process::ExitCode};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

#[derive(Args)]
pub struct FloorArguments {
    /// Where each call's bytes go.
    #[arg(long)]
    provider: SocketAddr,
}

/// Runs until it is killed. The first line it prints is its own address.
pub fn run(arguments: &FloorArguments) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(serve(arguments.provider))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("offhook-bench floor: {error}");
            ExitCode::from(3)
        }
    }
}

async fn serve(provider: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (caller, _) = listener.accept().await?;
        tokio::spawn(async move {
            if let Err(error) = copy(caller, provider).await {
                eprintln!("offhook-bench floor: {error}");
            }
        });
    }
}

async fn copy(mut caller: TcpStream, provider: SocketAddr) -> io::Result<()> {
    let mut provider = TcpStream::connect(provider).await?;
    caller.set_nodelay(true)?;
    provider.set_nodelay(true)?;
    copy_bidirectional(&mut caller, &mut provider).await.map(drop)
}
