//! How many frames the engine takes in a second, on one core: `cargo bench -p tabwarden-tests --bench engine`.
//!
//! Only `handle` and `poll_output` are measured; the browser on the other side is a few lines in memory, and making its
//! frames is not counted. The best of several rounds is shown beside the median: on a shared machine the best is the engine,
//! and the difference is the neighbours.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ownership::id::{ClientId, TaskId};
use router::engine::Engine;
use router::engine::io::{AdminCommand, AdminReply, AdminRequest, BrowserOrigin, Input, Output, TaskContext, TaskSpec};
use serde_json::{Value, json};
use tabwarden_tests::trace::{config, counter, policy_without};

/// Commands in flight at a time.
const BATCH: usize = 64;
const BATCHES: usize = 60;
const ROUNDS: usize = 9;

/// A session, as its client knows it and as the browser does.
struct Page {
    client: ClientId,
    shown: String,
    real: String,
}

/// An engine with clients and pages, and all that a browser has to say for that.
struct Rig {
    engine: Engine,
    now: Instant,
    pages: Vec<Page>,
    made: usize,
}

impl Rig {
    fn new(clients: usize, pages: usize) -> Rig {
        let now = Instant::now();
        let mut engine = Engine::new(config(BrowserOrigin::Launched), now, counter());
        engine.start(now);
        let mut rig = Rig { engine, now, pages: Vec::new(), made: 0 };
        rig.settle();
        let spec = TaskSpec {
            name: None,
            context: TaskContext::Isolated,
            policy: policy_without(&[]),
            idle_ttl: None,
            labels: BTreeMap::new(),
            open: None,
        };
        rig.engine.handle(now, Input::Admin { request: AdminRequest(1), command: AdminCommand::TaskNew(spec) });
        let task = rig.settle().expect("the task is made");
        for n in 0..clients {
            let client = ClientId(n as u64);
            rig.engine.handle(now, Input::ClientJoined { client, task, user_agent: "bench".into() });
            rig.settle();
            let connect = json!({"id": 1, "method": "Browser.getVersion"}).to_string();
            rig.engine.handle(now, Input::ClientFrame { client, text: &connect });
            for _ in 0..pages {
                rig.give_page(client);
            }
        }
        assert_eq!(rig.pages.len(), clients * pages);
        rig
    }

    /// A page of its own for that client, with one session.
    fn give_page(&mut self, client: ClientId) {
        let text = json!({"id": 2, "method": "Target.createTarget", "params": {"url": "about:blank"}}).to_string();
        self.engine.handle(self.now, Input::ClientFrame { client, text: &text });
        self.settle();
        let target = format!("T{}", self.made);
        let text = json!({"id": 3, "method": "Target.attachToTarget", "params": {"targetId": target, "flatten": true}});
        self.engine.handle(self.now, Input::ClientFrame { client, text: &text.to_string() });
        self.settle();
    }

    /// Answers everything that the engine asks, until it asks nothing more.
    fn settle(&mut self) -> Option<TaskId> {
        let mut task = None;
        let mut frames: Vec<Value> = Vec::new();
        loop {
            while let Some(output) = self.engine.poll_output() {
                match output {
                    Output::ToBrowser { text, .. } => self.answer(&text, &mut frames),
                    Output::ToClient { client, text } => self.noted(client, &text),
                    Output::AdminReply { reply: Ok(AdminReply::Task(info)), .. } => task = Some(info.id),
                    _ => {}
                }
            }
            if frames.is_empty() {
                return task;
            }
            for frame in frames.drain(..) {
                self.engine.handle(self.now, Input::BrowserFrame { text: &frame.to_string() });
            }
        }
    }

    fn answer(&mut self, text: &str, frames: &mut Vec<Value>) {
        let command: Value = serde_json::from_str(text).expect("the engine writes JSON");
        let info = |target: &str, context: &Value| {
            json!({"targetId": target, "type": "page", "title": "", "url": "about:blank", "attached": true,
                "canAccessOpener": false, "browserContextId": context})
        };
        let attached = |session: &str, info: Value, waiting: bool| {
            json!({"method": "Target.attachedToTarget",
                "params": {"sessionId": session, "targetInfo": info, "waitingForDebugger": waiting}})
        };
        let mut result = json!({"browserContextId": "CONTEXT", "defaultBrowserContextId": "PROFILE"});
        match command["method"].as_str() {
            Some("Target.createTarget") => {
                self.made += 1;
                let target = format!("T{}", self.made);
                let info = info(&target, &command["params"]["browserContextId"]);
                frames.push(json!({"method": "Target.targetCreated", "params": {"targetInfo": info}}));
                frames.push(attached(&format!("G{}", self.made), info, true));
                result = json!({"targetId": target});
            }
            Some("Target.attachToTarget") => {
                let target = command["params"]["targetId"].as_str().unwrap_or_default().to_owned();
                let session = format!("R{target}");
                frames.push(attached(&session, info(&target, &json!("CONTEXT")), false));
                result = json!({"sessionId": session});
            }
            _ => {}
        }
        let mut answer = json!({"id": command["id"], "result": result});
        if command["sessionId"].is_string() {
            answer["sessionId"] = command["sessionId"].clone();
        }
        frames.push(answer);
    }

    fn noted(&mut self, client: ClientId, text: &str) {
        let frame: Value = serde_json::from_str(text).expect("the engine writes JSON");
        if frame["method"] == "Target.attachedToTarget" {
            let shown = frame["params"]["sessionId"].as_str().unwrap_or_default().to_owned();
            let target = frame["params"]["targetInfo"]["targetId"].as_str().unwrap_or_default();
            self.pages.push(Page { client, shown, real: format!("R{target}") });
        }
    }

    /// The time of these frames alone, and what they led to.
    fn browser_says(&mut self, frames: &[String], outputs: &mut Vec<Output>) -> Duration {
        let begin = Instant::now();
        for text in frames {
            self.engine.handle(self.now, Input::BrowserFrame { text });
            while let Some(output) = self.engine.poll_output() {
                outputs.push(output);
            }
        }
        begin.elapsed()
    }

    fn clients_say(&mut self, frames: &[(ClientId, String)], outputs: &mut Vec<Output>) -> Duration {
        let begin = Instant::now();
        for (client, text) in frames {
            self.engine.handle(self.now, Input::ClientFrame { client: *client, text });
            while let Some(output) = self.engine.poll_output() {
                outputs.push(output);
            }
        }
        begin.elapsed()
    }
}

/// Text that fills a message up to about `size` bytes.
fn filler(size: usize) -> String {
    "0123456789abcdef ".chars().cycle().take(size).collect()
}

#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    clients: usize,
    pages: usize,
    /// Bytes of the command, of the response, and which of the two is counted.
    command: usize,
    response: usize,
    counts_commands: bool,
    /// Events instead.
    event: usize,
}

const SCENARIOS: [Scenario; 5] = [
    Scenario {
        name: "evaluate (200 B) and its response",
        clients: 1,
        pages: 1,
        command: 200,
        response: 120,
        counts_commands: true,
        event: 0,
    },
    Scenario {
        name: "1 KB responses",
        clients: 1,
        pages: 1,
        command: 200,
        response: 1024,
        counts_commands: false,
        event: 0,
    },
    Scenario {
        name: "64 KB responses",
        clients: 1,
        pages: 1,
        command: 200,
        response: 65_536,
        counts_commands: false,
        event: 0,
    },
    Scenario {
        name: "800 B events",
        clients: 1,
        pages: 1,
        command: 0,
        response: 0,
        counts_commands: false,
        event: 800,
    },
    Scenario {
        name: "evaluate, 16 clients x 4 pages",
        clients: 16,
        pages: 4,
        command: 200,
        response: 120,
        counts_commands: true,
        event: 0,
    },
];

/// What one round took, how many frames it was and how many bytes went in.
struct Round {
    time: Duration,
    frames: usize,
    bytes: usize,
}

fn round(rig: &mut Rig, scenario: &Scenario) -> Round {
    let mut round = Round { time: Duration::ZERO, frames: 0, bytes: 0 };
    let mut outputs = Vec::with_capacity(2 * BATCH);
    for batch in 0..BATCHES {
        let page = |n: usize| (batch * BATCH + n) % rig.pages.len();
        if scenario.event > 0 {
            let events: Vec<String> = (0..BATCH).map(|n| event(&rig.pages[page(n)], scenario.event)).collect();
            round.time += rig.browser_says(&events, &mut outputs);
            round.count(events.iter().map(String::len));
            assert_eq!(outputs.len(), BATCH, "every event is delivered");
            outputs.clear();
            continue;
        }
        let commands: Vec<(ClientId, String)> =
            (0..BATCH).map(|n| command(&rig.pages[page(n)], n, scenario.command)).collect();
        let time = rig.clients_say(&commands, &mut outputs);
        if scenario.counts_commands {
            round.time += time;
            round.count(commands.iter().map(|(_, text)| text.len()));
        }
        let responses: Vec<String> = outputs.drain(..).map(|output| response(&output, scenario.response)).collect();
        round.time += rig.browser_says(&responses, &mut outputs);
        round.count(responses.iter().map(String::len));
        assert_eq!(outputs.len(), BATCH, "every response is delivered");
        outputs.clear();
    }
    round
}

impl Round {
    fn count(&mut self, lengths: impl Iterator<Item = usize>) {
        for length in lengths {
            self.frames += 1;
            self.bytes += length;
        }
    }

    fn per_second(&self) -> f64 {
        self.frames as f64 / self.time.as_secs_f64()
    }
}

fn command(page: &Page, id: usize, size: usize) -> (ClientId, String) {
    let text = json!({"id": id, "sessionId": page.shown, "method": "Runtime.evaluate", "params": {
        "expression": filler(size.saturating_sub(120)), "returnByValue": true}});
    (page.client, text.to_string())
}

fn response(output: &Output, size: usize) -> String {
    let Output::ToBrowser { text, .. } = output else { panic!("a command was not forwarded: {output:?}") };
    let command: Value = serde_json::from_str(text).expect("the engine writes JSON");
    let value = filler(size.saturating_sub(90));
    json!({"id": command["id"], "sessionId": command["sessionId"], "result": {"result": {"type": "string", "value": value}}})
        .to_string()
}

fn event(page: &Page, size: usize) -> String {
    let url = format!("https://a.test/{}", filler(size.saturating_sub(220)).replace(' ', "-"));
    json!({"method": "Network.requestWillBeSent", "sessionId": page.real, "params": {
        "requestId": "1000.1", "loaderId": "L", "documentURL": "https://a.test/", "timestamp": 1.5, "type": "Image",
        "request": {"url": url, "method": "GET"}, "frameId": "F"}})
    .to_string()
}

fn main() {
    // `cargo test --benches` runs this too, with an argument that a benchmark has no use for.
    let load = || std::fs::read_to_string("/proc/loadavg").unwrap_or_else(|_| "unknown".to_owned());
    println!("load average before: {}", load().trim());
    println!("{:<36} {:>12} {:>12} {:>10} {:>9}", "one core, in memory", "frames/s", "(median)", "ns/frame", "MB/s");
    for scenario in &SCENARIOS {
        let mut rig = Rig::new(scenario.clients, scenario.pages);
        let mut rounds: Vec<Round> = (0..ROUNDS).map(|_| round(&mut rig, scenario)).collect();
        rounds.sort_by(|a, b| b.per_second().total_cmp(&a.per_second()));
        let (best, median) = (&rounds[0], &rounds[ROUNDS / 2]);
        println!(
            "{:<36} {:>12.0} {:>12.0} {:>10.0} {:>9.0}",
            scenario.name,
            best.per_second(),
            median.per_second(),
            1e9 / best.per_second(),
            best.bytes as f64 / best.time.as_secs_f64() / 1e6,
        );
    }
    println!("load average after:  {}", load().trim());
}
