// The checked-in protocol as a source of commands: every method, with values for all of its parameters.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from './serve.mjs';

// No fallback: without the file the hostile client would have nothing to send, and its test would pass.
const protocol = JSON.parse(readFileSync(join(repository, 'policy/protocol/chromium-156.json'), 'utf8'));

const types = new Map();
for (const domain of protocol.domains) for (const type of domain.types ?? []) types.set(`${domain.domain}.${type.id}`, { ...type, domain: domain.domain });

/** `{ domain, method, parameters }` of every command, in the order of the file. */
export const commands = protocol.domains.flatMap(({ domain, commands: all = [] }) =>
  all.map(({ name, parameters = [] }) => ({ domain, method: `${domain}.${name}`, parameters })));

/** What kind of id a type, or a parameter of a plain type with that name, holds. The rest has no kind. */
const KIND_OF_TYPE = {
  'Target.TargetID': 'target', 'Target.SessionID': 'session', 'Browser.BrowserContextID': 'context', 'Page.FrameId': 'frame',
  'Browser.WindowID': 'window', 'IO.StreamHandle': 'stream', 'DOM.NodeId': 'node', 'DOM.BackendNodeId': 'backendNode',
  'Runtime.RemoteObjectId': 'object', 'Runtime.ExecutionContextId': 'world', 'Network.LoaderId': 'loader', 'Network.RequestId': 'request',
  'Fetch.RequestId': 'request', 'Runtime.ScriptId': 'script', 'DOM.StyleSheetId': 'styleSheet', 'Page.ScriptIdentifier': 'identifier',
};
const KIND_OF_NAME = { guid: 'guid', targetId: 'target', uniqueContextId: 'uniqueWorld', uniqueIds: 'uniqueWorld', requestId: 'request', entryId: 'entry' };

const looksLikeId = name => /(^|[a-z])(id|ids|guid|handle)$/i.test(name);

/** Values that make sense for a parameter with that name and without an id. `at` has the URLs and folders to point to. */
function plausible(name, type, at, last) {
  if (type === 'boolean') return true;
  if (type === 'integer' || type === 'number') return /width|height/i.test(name) ? 777 : /x|y|latitude|longitude/i.test(name) && name.length < 12 ? 5 : 1;
  if (/urls?$|url(Pattern|Regex|Filter)?$/i.test(name)) return last ? at.origin : at.url;
  if (/origin/i.test(name)) return at.origin;
  if (/storageKey/i.test(name)) return `${at.origin}/`;
  if (/host|domain/i.test(name)) return at.host;
  if (/path|file/i.test(name)) return at.folder;
  if (/expression|function|script|source|condition/i.test(name)) return '1';
  if (/storageTypes/i.test(name)) return 'all';
  if (/timezone/i.test(name)) return 'Asia/Tokyo';
  if (/userAgent/i.test(name)) return 'mallory/1';
  if (/language|locale/i.test(name)) return 'de-AT';
  if (/html/i.test(name)) return '<title>mallory</title>';
  if (name === 'message') return at.message ?? 'x';
  if (/selector/i.test(name)) return 'body';
  if (/method/i.test(name)) return 'GET';
  if (/behavior/i.test(name)) return 'deny';
  if (/format/i.test(name)) return 'png';
  if (name === 'name') return 'geolocation';
  return 'x';
}

/**
 * Parameters for a command. `ids(kind, name)` gives the value of everything that can carry an id (undefined: leave it out);
 * `all`: with the optional ones that carry none, too.
 */
export function parametersOf(command, { ids, at, all }) {
  const value = (spec, name, domain, depth, above) => {
    let kind = KIND_OF_NAME[name];
    if (spec.$ref) {
      const key = spec.$ref.includes('.') ? spec.$ref : `${domain}.${spec.$ref}`;
      if (above.includes(key)) return undefined;
      kind = KIND_OF_TYPE[key] ?? kind;
      spec = types.get(key);
      above = [...above, key];
      domain = spec.domain;
    }
    if (kind && spec.type !== 'array' && spec.type !== 'object') return ids(kind, name);
    if (spec.enum) return spec.enum[all ? 0 : spec.enum.length - 1];
    switch (spec.type) {
      case 'array': {
        const item = value(spec.items, name, domain, depth, above);
        return item === undefined ? [] : [item];
      }
      case 'object': {
        if (/^(headers|data|auxData|state)$/.test(name) && !spec.properties) return {};
        return object(spec.properties ?? [], domain, depth + 1, above);
      }
      case 'any': return 1;
      case 'binary': return 'AAAA';
      case 'string': return looksLikeId(name) ? ids('other', name) : plausible(name, spec.type, at, !all);
      default: return plausible(name, spec.type, at, !all);
    }
  };
  /** Whether an id can stand somewhere in it. */
  const carries = (spec, name, domain, above = []) => {
    if (KIND_OF_NAME[name]) return true;
    if (spec.$ref) {
      const key = spec.$ref.includes('.') ? spec.$ref : `${domain}.${spec.$ref}`;
      if (KIND_OF_TYPE[key]) return true;
      if (above.includes(key)) return false;
      const type = types.get(key);
      return carries(type, name, type.domain, [...above, key]);
    }
    if (spec.type === 'array') return carries(spec.items, name, domain, above);
    if (spec.type === 'object') return (spec.properties ?? []).some(p => carries(p, p.name, domain, above));
    return false;
  };
  const object = (properties, domain, depth, above) => {
    const result = {};
    if (depth > 6) return result;
    for (const spec of properties) {
      if (spec.optional && !all && !carries(spec, spec.name, domain)) continue;
      const found = value(spec, spec.name, domain, depth, above);
      if (found !== undefined) result[spec.name] = found;
    }
    return result;
  };
  return object(command.parameters, command.domain, 0, []);
}
