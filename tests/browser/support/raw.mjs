// A CDP client without any library: commands, their answers, and events that can be waited for. Nothing is ever slept on.
import WebSocket from 'ws';
import { DEADLINE_MS, until, within } from './util.mjs';

/** What the other side answered instead of a result. */
export class CdpError extends Error {
  constructor(method, error) {
    super(`${method}: ${error.code} ${error.message}${error.data ? ` (${error.data})` : ''}`);
    this.method = method;
    this.code = error.code;
    this.text = error.message;
    this.data = error.data;
  }
}

export class Raw {
  #ws;
  #next = 1;
  #pending = new Map();
  #waiters = new Set();

  /** Every event that arrived, in order: `{ method, params, sessionId, n }`. */
  events = [];
  /** Every answer that belongs to no command in flight: must stay empty. */
  strays = [];
  /** `{ code, reason }` once the connection has closed. */
  closed = new Promise(resolve => { this.whenClosed = resolve; });

  /** Connects to a browser's WebSocket URL; rejects with `{ status, body }` on the error when the upgrade is refused. */
  static async connect(url, { headers } = {}) {
    const raw = new Raw();
    const ws = new WebSocket(url, { headers, perMessageDeflate: false, maxPayload: 0, followRedirects: false });
    raw.#ws = ws;
    ws.on('message', data => raw.#read(JSON.parse(data.toString())));
    ws.on('close', (code, reason) => raw.#end(code, reason.toString()));
    await within(new Promise((resolve, reject) => {
      ws.once('open', resolve);
      ws.once('error', reject);
      ws.once('unexpected-response', (_, response) => {
        let body = '';
        response.on('data', chunk => { body += chunk; });
        response.on('end', () => reject(Object.assign(new Error(`refused with ${response.statusCode} ${response.statusMessage}: ${body}`), {
          status: response.statusCode, statusText: response.statusMessage, headers: response.headers, body,
        })));
      });
    }), `connecting to ${new URL(url).host}`);
    ws.on('error', () => { /* `close` follows */ });
    return raw;
  }

  /** Connects by a discovery URL, as clients do. */
  static async discover(httpUrl) {
    const response = await fetch(`${httpUrl.replace(/\/$/, '')}/json/version`);
    if (!response.ok) throw Object.assign(new Error(`discovery: ${response.status} ${response.statusText}`), { status: response.status });
    return Raw.connect((await response.json()).webSocketDebuggerUrl);
  }

  #read(message) {
    if (message.id !== undefined && message.method === undefined) {
      const call = this.#pending.get(message.id);
      if (!call) return void this.strays.push(message);
      this.#pending.delete(message.id);
      if (message.error) call.reject(new CdpError(call.method, message.error));
      else call.resolve(message.result);
      return;
    }
    if (message.method === undefined) return void this.strays.push(message);
    const event = { ...message, n: this.events.length };
    this.events.push(event);
    this.onEvent?.(event);
    for (const waiter of [...this.#waiters]) waiter(event);
  }

  #end(code, reason) {
    this.isClosed = true;
    this.whenClosed({ code, reason });
    for (const call of this.#pending.values()) call.reject(Object.assign(new Error(`${call.method}: connection closed (${code} ${reason})`), { closed: true }));
    this.#pending.clear();
  }

  /** Sends and gives the result, or throws CdpError. */
  send(method, params = {}, sessionId, { deadline = DEADLINE_MS } = {}) {
    return within(this.post(method, params, sessionId).answer, `an answer to ${method}`, deadline);
  }

  /** Sends without waiting: `{ id, answer }`. The answer is not a deadline's affair. */
  post(method, params = {}, sessionId) {
    const id = this.#next++;
    const answer = new Promise((resolve, reject) => this.#pending.set(id, { method, resolve, reject }));
    answer.catch(() => { /* whoever looks at it sees it */ });
    if (this.isClosed) this.#pending.get(id).reject(new Error(`${method}: connection closed`));
    else this.#ws.send(JSON.stringify({ id, method, params, ...(sessionId ? { sessionId } : {}) }));
    return { id, answer };
  }

  /** Sends text as it is. */
  sendText(text) { this.#ws.send(text); }
  sendBinary(bytes) { this.#ws.send(bytes, { binary: true }); }

  /** Sends and gives the CdpError; a success is a failure. */
  async refused(method, params, sessionId) {
    try {
      const result = await this.send(method, params, sessionId);
      throw Object.assign(new Error(`${method} ${JSON.stringify(params)} was answered with a result: ${JSON.stringify(result)}`), { unexpected: true });
    } catch (error) {
      if (error instanceof CdpError) return error;
      throw error;
    }
  }

  /** A point in the stream of events, to wait for what comes after it. */
  mark() { return this.events.length; }

  /**
   * The first event of that name, at or after `since` (default: any, also an earlier one), that satisfies `accept`.
   * `sessionId: null` means the root session only.
   */
  wait(method, { accept = () => true, sessionId, since = 0, deadline = DEADLINE_MS } = {}) {
    const fits = event => event.method === method && (sessionId === undefined || (event.sessionId ?? null) === sessionId) && accept(event.params, event);
    for (let i = since; i < this.events.length; i++) if (fits(this.events[i])) return Promise.resolve(this.events[i]);
    let waiter;
    const found = new Promise((resolve, reject) => {
      waiter = event => { if (fits(event)) resolve(event); };
      this.#waiters.add(waiter);
      this.closed.then(({ code, reason }) => reject(new Error(`waiting for ${method}: connection closed (${code} ${reason})`)));
    });
    return within(found, () => `${method}; events since then: ${this.events.slice(since).map(e => e.method).join(' ').slice(-2000)}`, deadline)
      .finally(() => this.#waiters.delete(waiter));
  }

  /** Events of that name since a mark. */
  seen(method, since = 0) { return this.events.slice(since).filter(event => event.method === method); }

  /** `expression` in the session's page, by value; promises are awaited. */
  async evaluate(expression, sessionId, extra = {}) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true, ...extra }, sessionId);
    if (exceptionDetails) throw new Error(`evaluate: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  /** A new page, attached: `{ targetId, sessionId }`. */
  async newPage(url = 'about:blank', params = {}) {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank', ...params });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    if (url !== 'about:blank') await this.goto(url, sessionId);
    return { targetId, sessionId };
  }

  /** Navigates and waits for that document's load event. Gives Page.navigate's result. */
  async goto(url, sessionId) {
    await this.send('Page.enable', {}, sessionId);
    await this.send('Page.setLifecycleEventsEnabled', { enabled: true }, sessionId);
    const since = this.mark();
    const result = await this.send('Page.navigate', { url }, sessionId);
    if (!result.errorText && result.loaderId) {
      await this.wait('Page.lifecycleEvent', { sessionId, since, accept: p => p.name === 'load' && p.loaderId === result.loaderId });
    }
    return result;
  }

  /** A real click in the middle of `selector`. `modifiers` as CDP counts them: 1 alt, 2 ctrl, 4 meta, 8 shift. */
  async click(selector, sessionId, { button = 'left', modifiers = 0 } = {}) {
    const at = await this.evaluate(`(() => { const e = document.querySelector(${JSON.stringify(selector)}); e.scrollIntoView(); const r = e.getBoundingClientRect(); return { x: r.x + r.width / 2, y: r.y + r.height / 2 }; })()`, sessionId);
    const base = { ...at, button, modifiers, clickCount: 1, buttons: button === 'middle' ? 4 : 1 };
    await this.send('Input.dispatchMouseEvent', { ...base, type: 'mouseMoved', button: 'none', buttons: 0, clickCount: 0 }, sessionId);
    await this.send('Input.dispatchMouseEvent', { ...base, type: 'mousePressed' }, sessionId);
    await this.send('Input.dispatchMouseEvent', { ...base, type: 'mouseReleased', buttons: 0 }, sessionId);
  }

  /**
   * Clicks on what `selector` finds in a cross-site frame, `frame` being its session and `page` that of its page, whose
   * `<iframe>` is `#f`. Input goes to the page, and Chromium leads it to the frame only once the frame's first picture has
   * arrived: until then a click is lost without a word, so the mouse is moved until the frame sees it.
   */
  async clickInFrame(selector, frame, page, { button = 'left', modifiers = 0 } = {}) {
    const place = (selector, dx) => `(() => { const r = document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect(); return { x: r.x + ${dx ?? 'r.width / 2'}, y: r.y + ${dx ?? 'r.height / 2'} }; })()`;
    const inner = await this.evaluate(place(selector), frame);
    const outer = await this.evaluate(place('#f', 2), page);
    const at = { x: inner.x + outer.x, y: inner.y + outer.y };
    let moves = 0;
    await until(async () => {
      await this.send('Input.dispatchMouseEvent', { ...at, x: at.x + moves++ % 2, type: 'mouseMoved' }, page);
      return await this.evaluate('window.__moved', frame) > 0;
    }, 'the frame seeing the mouse');
    for (const type of ['mousePressed', 'mouseReleased']) await this.send('Input.dispatchMouseEvent', { ...at, button, modifiers, clickCount: 1, type }, page);
  }

  async close() {
    this.#ws.close();
    return within(this.closed, 'the connection closing');
  }
  terminate() { this.#ws.terminate(); }
}
