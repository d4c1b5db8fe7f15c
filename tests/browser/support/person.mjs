// The person whose browser it is, in an attached browser: a second, direct connection to it, which is no client of tabwarden's.
// (In a launched browser nobody but tabwarden has a connection: there the person's tab is a URL argument of the browser, at
// the site's `/person` page, and `site.ask` speaks with it over HTTP.)
import { Raw } from './raw.mjs';
import { until } from './util.mjs';

export class Person {
  static async of(browser) {
    const person = new Person();
    person.raw = await Raw.connect(browser.wsUrl);
    await person.raw.send('Target.setDiscoverTargets', { discover: true });
    return person;
  }

  /** Opens a tab in the foreground, as Ctrl+T does, and waits until its document has loaded: `{ targetId, sessionId, url }`. */
  async openTab(url, params = {}) {
    const { targetId } = await this.raw.send('Target.createTarget', { url, ...params });
    return this.#loaded(targetId, url);
  }

  /** Attaches to any target of the browser, a task's too: the person may. */
  async attach(targetId) {
    const { sessionId } = await this.raw.send('Target.attachToTarget', { targetId, flatten: true });
    return { targetId, sessionId };
  }

  async #loaded(targetId, url) {
    const tab = { ...await this.attach(targetId), url };
    await this.raw.send('Page.enable', {}, tab.sessionId);
    // The document may be the initial empty one still, which is complete, too; and the one that is asked may go away.
    await until(() => this.evaluate(tab, `(${url === 'about:blank'} || location.href !== 'about:blank') && document.readyState === 'complete'`), `the tab at ${url} having loaded`);
    return tab;
  }

  evaluate(tab, expression) { return this.raw.evaluate(expression, tab.sessionId); }

  /** The person clicks in a tab, which they look at for that: a hidden tab gets no clicks. */
  async click(tab, selector, options) {
    await this.raw.send('Page.bringToFront', {}, tab.sessionId);
    await this.raw.click(selector, tab.sessionId, options);
  }

  /** The person types an address into that tab. */
  async navigate(tab, url) {
    await this.raw.send('Page.enable', {}, tab.sessionId);
    return this.raw.goto(url, tab.sessionId);
  }

  /** All targets of the browser, of any type. */
  async targets(filter = [{}]) { return (await this.raw.send('Target.getTargets', { filter })).targetInfos; }
  async target(targetId) { return (await this.targets()).find(info => info.targetId === targetId); }
  /** Pages only, as `{ targetId, url, … }`. */
  async pages() { return (await this.targets()).filter(info => info.type === 'page'); }

  close() { return this.raw.close(); }
}
