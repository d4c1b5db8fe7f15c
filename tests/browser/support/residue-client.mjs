// A client that changes all it may of a page, holds a request and a popup, says so in one line, and then waits to be killed.
// Run as: node residue-client.mjs WS_URL TARGET_ID SITE_ORIGIN
import { Raw } from './raw.mjs';

const [wsUrl, targetId, origin] = process.argv.slice(2);
const raw = await Raw.connect(wsUrl);
const { sessionId } = await raw.send('Target.attachToTarget', { targetId, flatten: true });
const { browserContextId } = await raw.send('Target.createBrowserContext', { disposeOnDetach: true });
const inContext = await raw.send('Target.createTarget', { url: 'about:blank', browserContextId });

await raw.send('Page.enable', {}, sessionId);
for (const [method, params] of [
  ['Emulation.setUserAgentOverride', { userAgent: 'residue/1', acceptLanguage: 'tlh' }],
  ['Emulation.setDeviceMetricsOverride', { width: 321, height: 123, deviceScaleFactor: 3, mobile: false }],
  ['Emulation.setTimezoneOverride', { timezoneId: 'Asia/Kathmandu' }],
  ['Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: 'dark' }] }],
  ['Network.enable', {}],
  ['Network.setExtraHTTPHeaders', { headers: { 'x-residue': 'yes' } }],
  ['Runtime.enable', {}],
  ['Runtime.addBinding', { name: 'residueBinding' }],
  ['Page.addScriptToEvaluateOnNewDocument', { source: 'window.__init = "residue"', runImmediately: true }],
]) await raw.send(method, params, sessionId);

// A popup that nobody lets go: its first request must not be sent before this client is gone.
await raw.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: true, flatten: true });
const since = raw.mark();
await raw.send('Runtime.evaluate', { expression: `window.open('${origin}/plain?title=held+popup', '', 'noopener')`, userGesture: true }, sessionId);
const { params: popup } = await raw.wait('Target.attachedToTarget', { since, sessionId: null, accept: p => p.targetInfo.type === 'page' && p.targetInfo.openerId === targetId });

// A request that nobody lets go.
await raw.send('Fetch.enable', { patterns: [{ urlPattern: '*' }] }, sessionId);
await raw.send('Runtime.evaluate', { expression: `fetch('/api/value?held=request').then(r => r.json()).then(v => { window.heldResult = v; }); 0` }, sessionId);
await raw.wait('Fetch.requestPaused', { sessionId });

console.log(JSON.stringify({ browserContextId, inContext: inContext.targetId, popup: popup.targetInfo.targetId, waiting: popup.waitingForDebugger }));
