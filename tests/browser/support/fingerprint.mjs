// What a page and a profile look like from outside, for "equal before and after". The list is that of the experiments in
// which every method of the protocol was tried for effects on tabs that the caller does not own.

const IN_PAGE = `(async () => {
  const permissions = {};
  for (const name of ['geolocation', 'notifications', 'clipboard-read', 'clipboard-write', 'camera', 'microphone', 'midi', 'persistent-storage', 'background-sync', 'storage-access']) {
    try { permissions[name] = (await navigator.permissions.query({ name })).state; } catch (e) { permissions[name] = e.name; }
  }
  const databases = indexedDB.databases ? (await indexedDB.databases().catch(e => [e.name])).map(d => d.name ?? d) : [];
  return {
    url: location.href, title: document.title, body: document.body.innerHTML.length, scripts: window.__init ?? null,
    visibility: document.visibilityState, focus: document.hasFocus(),
    local: { ...localStorage }, session: { ...sessionStorage }, cookie: document.cookie, databases,
    caches: self.caches ? await caches.keys() : [], workers: navigator.serviceWorker ? (await navigator.serviceWorker.getRegistrations()).map(r => r.scope) : [],
    agent: navigator.userAgent, languages: navigator.languages.join(), online: navigator.onLine, cookieEnabled: navigator.cookieEnabled,
    size: [innerWidth, innerHeight, outerWidth, outerHeight, screenX, screenY, screen.width, screen.height, devicePixelRatio],
    zone: Intl.DateTimeFormat().resolvedOptions().timeZone, touch: navigator.maxTouchPoints, hardware: navigator.hardwareConcurrency,
    media: ['(prefers-color-scheme: dark)', '(prefers-reduced-motion: reduce)', 'print', '(forced-colors: active)'].map(q => matchMedia(q).matches),
    history: history.length, fullscreen: !!document.fullscreenElement, permissions,
  };
})()`;

/** One page, over a session of the person's: what its own script sees, its window and its focus. */
export async function ofPage(person, tab) {
  const [inside, target, window] = await Promise.all([
    person.evaluate(tab, IN_PAGE),
    person.target(tab.targetId),
    person.raw.send('Browser.getWindowForTarget', { targetId: tab.targetId }),
  ]);
  return { inside, target: target && { type: target.type, url: target.url, title: target.title, context: target.browserContextId }, window };
}

/** The cookies of a context, comparable. */
export async function ofCookies(person, browserContextId) {
  const { cookies } = await person.raw.send('Storage.getCookies', browserContextId ? { browserContextId } : {});
  return cookies.map(({ name, value, domain, path, httpOnly, secure, expires }) => ({ name, value, domain, path, httpOnly, secure, expires }))
    .sort((a, b) => JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);
}

/** Storage of an origin in the profile, from outside of any page. */
export async function ofStorage(person, tab, origin) {
  const { usage, quota, overrideActive, usageBreakdown } = await person.raw.send('Storage.getUsageAndQuota', { origin }, tab.sessionId);
  return { used: usage > 0, overrideActive, kinds: usageBreakdown.filter(k => k.usage > 0).map(k => k.storageType).sort(), quota: quota > 0 };
}
