//! An engine that says what the test wants said.

use super::*;

/// An engine that says what the test wants said.
pub struct Sample {
    pub readiness: Readiness,
    pub calls: CallsView,
    /// What has become of the calls.
    pub since: Mutex<fn(&mut CallsView)>,
    /// Those who listen hear a call that goes on: at these ends.
    pub goes_on: AtomicBool,
    pub listeners: Mutex<Vec<mpsc::Sender<Bytes>>>,
    pub reload: Mutex<Result<ReloadReport, ReloadFailure>>,
    /// A reload or an examination waits for this, if set.
    pub hold: Option<Arc<Notify>>,
    /// Calls that somebody ended.
    pub hung_up: Mutex<Vec<CallId>>,
    pub reloads: AtomicUsize,
    /// Examinations and tests of the audio paths that have begun.
    pub examinations: Arc<AtomicUsize>,
    pub reloads_done: Arc<AtomicUsize>,
    /// New calls are declined.
    pub draining: AtomicBool,
}

impl Default for Sample {
    fn default() -> Self {
        let report = ReloadReport {
            generation: 2,
            changed: vec!["context sales".into()],
            needs_restart: vec![],
            reload_pending: false,
        };
        Self {
            readiness: Readiness {
                ari: Check::ok("connected to http://127.0.0.1:8088"),
                media: Check::ok("AudioSocket on 127.0.0.1:9092"),
                providers: Check::ok("1 of 1 usable: scripted"),
                accepting: Check::ok("1 of 100 calls"),
            },
            calls: CallsView { active: vec![active("sales")], recent: vec![ended(EndReason::AgentSilent)] },
            since: Mutex::new(|_| {}),
            goes_on: AtomicBool::default(),
            listeners: Mutex::default(),
            reload: Mutex::new(Ok(report)),
            hold: None,
            hung_up: Mutex::default(),
            reloads: AtomicUsize::new(0),
            examinations: Arc::default(),
            reloads_done: Arc::default(),
            draining: AtomicBool::default(),
        }
    }
}

impl Sample {
    /// An examination begins, and waits.
    fn begun(&self) -> impl Future<Output = ()> + use<> {
        let (examinations, hold) = (Arc::clone(&self.examinations), self.hold.clone());
        async move {
            examinations.fetch_add(1, Ordering::SeqCst);
            if let Some(hold) = hold {
                hold.notified().await;
            }
        }
    }
}

impl EngineView for Sample {
    fn about(&self) -> About {
        About { version: "1.2.3", started: "2026-11-20T08:00:00Z".parse().unwrap(), generation: 1 }
    }

    fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    fn calls(&self) -> CallsView {
        let mut calls = self.calls.clone();
        (self.since.lock().unwrap())(&mut calls);
        calls
    }

    fn call(&self, id: CallId) -> Option<ActiveCall> {
        self.calls().active.into_iter().find(|active| active.call.id == id)
    }

    fn parties(&self, id: CallId) -> Option<Parties> {
        let known = |text: &str| Some(text.to_owned());
        let (caller_number, caller_name) = (known("+15550199"), known("Ada Byron"));
        self.call(id).map(|_| Parties { caller_number, caller_name, dialled_number: known("493012345") })
    }

    fn story(&self, id: CallId, from: u64) -> Option<Vec<LiveEntry>> {
        let said = Event::Said { speaker: "caller".into(), text: "My secret wish.".into() };
        let all = [Event::Answered, said].into_iter().zip(0..);
        let entry = |(event, number)| LiveEntry { number, entry: Entry { at_ms: number * 1_000, event } };
        self.call(id).map(|_| all.map(entry).filter(|entry| entry.number >= from).collect())
    }

    fn hang_up(&self, id: CallId, _: &str) -> bool {
        let runs = self.calls.active.iter().any(|active| active.call.id == id);
        self.hung_up.lock().unwrap().extend(runs.then_some(id));
        runs
    }

    fn listen(&self, id: CallId) -> Result<mpsc::Receiver<Bytes>, NoListening> {
        self.call(id).ok_or(NoListening::NotRunning)?;
        let (parts, heard) = mpsc::channel(2);
        for part in ["RIFF", "and so on"] {
            parts.try_send(Bytes::from_static(part.as_bytes())).unwrap();
        }
        if self.goes_on.load(Ordering::SeqCst) {
            self.listeners.lock().unwrap().push(parts);
        }
        Ok(heard)
    }

    fn destinations(&self, id: CallId) -> Option<BTreeMap<String, Destination>> {
        let runs = self.calls.active.iter().any(|active| active.call.id == id);
        let place = Place { context: "people".into(), extension: "s".into(), priority: 1 };
        let group = RingGroup { endpoints: vec!["PJSIP/desk".into()], limit: Duration::from_secs(20) };
        let people = Destination { description: "Those who know better".into(), way: Way::Dialplan(place) };
        let desk = Destination { description: "The desk".into(), way: Way::Dial(group) };
        runs.then(|| BTreeMap::from([("people".into(), people), ("desk".into(), desk)]))
    }

    fn transfer(&self, id: CallId, destination: &str, _: &str) -> Result<(), NoTransfer> {
        let known = self.destinations(id).ok_or(NoTransfer::NotRunning)?;
        known.contains_key(destination).then_some(()).ok_or(NoTransfer::NoSuchDestination)
    }

    fn converse(&self, context: String) -> BoxFuture<'static, Result<CallId, NoConversation>> {
        let known = self.contexts().contains_key(&context);
        Box::pin(async move { known.then(CallId::random).ok_or(NoConversation::NoSuchContext) })
    }

    /// Nobody writes in the calls of the sample.
    fn write(&self, id: CallId, _: &str) -> Result<(), NoWriting> {
        Err(if self.story(id, 0).is_some() { NoWriting::Spoken } else { NoWriting::NotRunning })
    }

    fn examine(&self) -> BoxFuture<'static, Vec<Finding>> {
        let found = |area, grade, says: &str, remedy: Option<&str>| Finding {
            area,
            grade,
            says: says.into(),
            remedy: remedy.map(Into::into),
        };
        let findings = vec![
            found("call", "ok", "rtp/ulaw: a test call is heard both ways", None),
            found("clock", "warning", "the clocks differ by 3 s", Some("run a time service on both")),
        ];
        let begun = self.begun();
        Box::pin(async move {
            begun.await;
            findings
        })
    }

    fn media_test(&self) -> BoxFuture<'static, MediaTest> {
        let path = |delay| TestPath { delay_ms: delay, loss_percent: 1.5, level_dbov: Some(-15.3), sent_dbov: -15.3 };
        let call = TestCall {
            audio: "rtp/ulaw".into(),
            configured: true,
            grade: "problem",
            says: "nothing that is sent to Asterisk is heard".into(),
            remedy: Some("let this machine reach Asterisk's ports".into()),
            from_caller: Some(path(Some(21.4))),
            to_caller: Some(TestPath { level_dbov: None, loss_percent: 100.0, ..path(None) }),
        };
        let begun = self.begun();
        Box::pin(async move {
            begun.await;
            MediaTest { ok: false, calls: vec![call], findings: Vec::new() }
        })
    }

    fn metrics_text(&self) -> String {
        telemetry::Metrics::new("1.2.3").text()
    }

    fn reload(&self) -> BoxFuture<'static, Result<ReloadReport, ReloadFailure>> {
        self.reloads.fetch_add(1, Ordering::SeqCst);
        let (result, hold, done) = (self.reload.lock().unwrap().clone(), self.hold.clone(), self.reloads_done.clone());
        Box::pin(async move {
            if let Some(hold) = hold {
                hold.notified().await;
            }
            done.fetch_add(1, Ordering::SeqCst);
            result
        })
    }

    fn mcp_status(&self) -> McpStatus {
        let tool = |name: &str, reason: Option<&str>| McpToolView {
            name: name.into(),
            exposed_name: Some(format!("mcp_clock_{name}")),
            registered: reason.is_none(),
            reason: reason.map(Into::into),
        };
        let server = McpServerView {
            transport: "stdio",
            state: "up",
            restarts: 2,
            last_error: None,
            missing: Vec::new(),
            tools: vec![tool("now", None), tool("then", Some("another tool has the name \"mcp_clock_then\""))],
        };
        McpStatus { enabled: true, reload_pending: false, servers: [("clock".to_owned(), server)].into() }
    }

    fn mcp_test(&self, id: String) -> BoxFuture<'static, McpTest> {
        let done = |result| McpTest::Done { took: Duration::from_millis(1234), result };
        let test = match id.as_str() {
            "clock" => done(Ok(vec![McpTestedTool {
                name: "now".into(),
                exposed_name: Some("mcp_clock_now".into()),
                description: Some("The time.".into()),
                arguments: vec!["zone".into()],
                access: Some("public_read"),
                reason: None,
            }])),
            "broken" => done(Err("it ended (exit status: 1)".into())),
            "busy" => McpTest::Busy,
            _ => McpTest::Unknown,
        };
        Box::pin(std::future::ready(test))
    }

    fn tools(&self) -> Vec<TenantTools> {
        tools::registries()
    }

    fn tool_audits(&self, tenant: Option<&str>, tool: Option<&str>) -> Vec<AuditLine> {
        tool.map_or_else(
            || ["book", "made_up"].into_iter().flat_map(|tool| tools::audits(tenant, tool)).collect(),
            |tool| tools::audits(tenant, tool),
        )
    }

    fn providers(&self) -> BTreeMap<String, ProviderView> {
        let band = |up_to_s, turns| telemetry::Waited { up_to_s, turns };
        let figures = telemetry::ProviderFigures {
            waited: vec![band(Some(0.5), 3), band(Some(1.0), 90), band(Some(2.0), 6), band(None, 1)],
            losses: [("stalled".to_owned(), 2)].into(),
            connected_seconds: 187.0,
            costs: [("USD".to_owned(), 12.345)].into(),
            ..telemetry::ProviderFigures::default()
        };
        let main = ProviderView {
            kind: "openai_realtime".into(),
            state: "asked",
            contexts: vec!["sales".into()],
            fallback_of: vec!["night".into()],
            calls: 1,
            services: vec![],
            figures,
        };
        let service = |section, name: &str, kind: &str, state| ServiceView {
            section,
            name: name.into(),
            kind: kind.into(),
            state,
        };
        let ill = ProviderView {
            kind: "pipeline".into(),
            state: "left_alone",
            contexts: vec!["<night>".into()],
            fallback_of: vec![],
            calls: 0,
            services: vec![
                service("stt", "ears", "deepgram_listen", "left_alone"),
                service("llm", "house", "openai_chat", "asked"),
            ],
            figures: telemetry::ProviderFigures::default(),
        };
        [("main".to_owned(), main), ("ill".to_owned(), ill)].into()
    }

    fn contexts(&self) -> BTreeMap<String, ContextView> {
        let sales = ContextView {
            default: true,
            provider: "main".into(),
            fallbacks: vec!["ill".into()],
            tools: vec!["hangup_call".into(), "mcp_clock_now".into()],
            audio: "rtp/ulaw".into(),
            audiosocket_id: Some("0ff40001".into()),
            calls: 1,
        };
        [("sales".to_owned(), sales)].into()
    }

    fn system(&self) -> SystemView {
        let media = MediaView { transport: "rtp", bind: "127.0.0.1 20000–20199".into(), open: 3, most: Some(100) };
        SystemView {
            about: self.about(),
            readiness: self.readiness(),
            calls: 1,
            calls_max: 50,
            draining: self.draining.load(Ordering::SeqCst),
            reload_pending: false,
            configuration: Some("/etc/offhook/offhook.yaml".into()),
            asterisk: Some(AsteriskView { address: "10.0.0.5:8088".into(), app: "offhook".into(), lost: 2 }),
            media: vec![media],
        }
    }

    fn take_calls(&self, taken: bool, by: &str) {
        assert!(!by.is_empty(), "somebody asked for it");
        self.draining.store(!taken, Ordering::SeqCst);
    }
}

pub fn head(context: &str) -> CallHead {
    CallHead {
        id: CallId::random(),
        context: context.into(),
        provider: "main".into(),
        direction: Direction::Inbound,
        since: "2026-11-20T09:30:00Z".parse().unwrap(),
        written: false,
        parties: None,
    }
}

pub fn active(context: &str) -> ActiveCall {
    let counts = Counts { agent_turns: 3, barge_ins: 1, ..Counts::default() };
    ActiveCall {
        call: head(context),
        phase: "talking",
        floor: "agent",
        levels: Levels { caller: 12, agent: 70 },
        counts,
    }
}

pub fn ended(reason: EndReason) -> EndedCall {
    let usage = Used {
        provider: "main".into(),
        tokens: BTreeMap::from([("output_audio".into(), 300)]),
        transcribed_seconds: 0.0,
        connected_seconds: 83.2,
        cost: Some(Cost {
            amount: 0.0192,
            currency: "USD".into(),
            price_date: "2026-11-20".into(),
            unpriced: Vec::new(),
        }),
    };
    let lasted = Duration::from_millis(83_250);
    EndedCall { call: head("sales"), lasted, reason: reason.into(), counts: Counts::default(), usage: vec![usage] }
}

/// From this machine. Nobody has an account.
pub fn router(view: Arc<dyn EngineView>, admin_token: Option<&SecretString>) -> Router {
    let accounts = Arc::new(Accounts::new(Path::new("/nowhere/accounts.json")));
    from(LOOPBACK, site(view, accounts, None, admin_token))
}
