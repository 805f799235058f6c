//! The built program, run as a client runs it.

use rmcp::{
    RoleClient, ServiceError, ServiceExt as _,
    model::{CallToolRequestParams, CallToolResult},
    service::RunningService,
};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::ExitStatus,
    process::Stdio,
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
    time::timeout,
};

/// The longest anything may take; what goes on is a failure, not a wait.
pub const WITHIN: Duration = Duration::from_secs(20);

/// Where cargo builds the program: beside this test. Asked for at run time, as what was compiled may be of another clone.
pub fn path() -> PathBuf {
    let tests = std::env::current_exe().expect("a test program");
    tests.ancestors().nth(2).expect("target/debug/deps").join("phonebook")
}

pub fn program() -> Command {
    let mut command = Command::new(path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.env_remove("PHONEBOOK_DATABASE");
    command
}

/// The program with a database, in Germany.
pub fn phonebook(database: &Path, more: &[&str]) -> Command {
    let mut command = program();
    command.arg("--database").arg(database).args(["--country-prefix", "49"]).args(more);
    command
}

/// Runs a command to its end: whether it succeeded, its standard output, its standard error.
pub async fn ended(mut command: Command) -> (bool, String, String) {
    let output = timeout(WITHIN, command.stdin(Stdio::null()).output()).await.expect("it ends by itself");
    let output = output.expect("cargo built the program");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// A client with a server of its own.
pub struct Client {
    service: RunningService<RoleClient, ()>,
    child: Child,
}

impl Client {
    pub async fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("cargo built the program");
        let pipes = (child.stdout.take().expect("a pipe"), child.stdin.take().expect("a pipe"));
        let service = timeout(WITHIN, ().serve(pipes)).await.expect("it answers").expect("it initializes");
        Self { service, child }
    }

    /// The declarations of the tools, as they were on the wire.
    pub async fn tools(&self) -> Vec<Value> {
        let tools = timeout(WITHIN, self.service.list_all_tools()).await.expect("it answers").expect("a list");
        tools.iter().map(|tool| serde_json::to_value(tool).expect("JSON")).collect()
    }

    pub async fn try_call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, ServiceError> {
        let mut parameters = CallToolRequestParams::new(tool.to_owned());
        parameters.arguments = arguments.as_object().cloned();
        timeout(WITHIN, self.service.call_tool(parameters)).await.expect("it answers")
    }

    /// The structured result of a call that went well.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.try_call(tool, arguments.clone()).await;
        let result = result.unwrap_or_else(|error| panic!("{tool} {arguments}: {error}"));
        assert_ne!(result.is_error, Some(true), "{tool} {arguments}: {result:?}");
        result.structured_content.expect("every tool answers in structure")
    }

    /// The text of a call that was refused, by whichever of the protocol's two ways.
    pub async fn refused(&self, tool: &str, arguments: Value) -> String {
        match self.try_call(tool, arguments.clone()).await {
            Err(ServiceError::McpError(error)) => error.message.to_string(),
            Ok(result) if result.is_error == Some(true) => {
                result.content[0].as_text().expect("an error is told in words").text.clone()
            }
            other => panic!("{tool} {arguments}: {other:?}"),
        }
    }

    /// Closes the server's standard input; gives how it ended and all it wrote to standard error.
    pub async fn close(mut self) -> (ExitStatus, String) {
        let mut stderr = self.child.stderr.take().expect("a pipe");
        self.service.cancel().await.expect("the client's task ends");
        let status = timeout(WITHIN, self.child.wait()).await.expect("it ends by itself").expect("a status");
        let mut log = String::new();
        stderr.read_to_string(&mut log).await.expect("UTF-8");
        (status, log)
    }
}

/// A folder with the database file that tests write to.
pub struct Desk {
    pub folder: TempDir,
}

impl Desk {
    pub fn new() -> Self {
        Self { folder: TempDir::new().expect("a folder") }
    }

    pub fn database(&self) -> PathBuf {
        self.folder.path().join("phonebook.db")
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    pub fn phonebook(&self, more: &[&str]) -> Command {
        phonebook(&self.database(), more)
    }

    /// Imports CSV text, which has to be good; gives what the program said.
    pub async fn import(&self, text: &str) -> String {
        let (good, said, problems) = self.try_import(text).await;
        assert!(good, "{problems}");
        said
    }

    pub async fn try_import(&self, text: &str) -> (bool, String, String) {
        let file = self.write("import.csv", text);
        let mut command = self.phonebook(&["import"]);
        command.arg(file);
        ended(command).await
    }
}
