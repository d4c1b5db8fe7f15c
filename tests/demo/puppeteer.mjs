// An unmodified Puppeteer script.
import puppeteer from 'puppeteer-core';

const [url, sites, meetingPoint] = process.argv.slice(2);
const at = (host, path) => sites.replace('HOST', host) + path;

const browser = await puppeteer.connect({ browserURL: url });
const [page] = await browser.pages();
const src = at('c.test', '/plain?title=A+frame+from+c.test');
await page.goto(at('b.test', `/with-frame?src=${encodeURIComponent(src)}`));
const frame = await page.waitForFrame(f => f.url() === src);
const inFrame = await (await frame.waitForSelector('#title')).evaluate(e => e.textContent);

const opener = await browser.newPage();
await opener.goto(at('a.test', `/popups?to=${encodeURIComponent(at('d.test', '/plain?title=Popup+of+Puppeteer'))}`));
const [popup] = await Promise.all([new Promise(resolve => opener.once('popup', resolve)), opener.click('#open')]);
await popup.waitForSelector('#title');
const session = await popup.createCDPSession();
const { result } = await session.send('Runtime.evaluate', { expression: 'opener === null ? "no opener" : "an opener"' });

await fetch(meetingPoint);

for (const seen of await browser.pages()) {
  console.log(`sees ${seen.url()}  "${await seen.title()}"`);
  for (const each of seen.frames().slice(1)) console.log(`     frame ${each.url()}`);
}
console.log(`read in the cross-site frame: "${inFrame}"; its popup has ${result.value}`);
await browser.close(); // which ends the connection and not the browser
