// Policy files for tests.

/** What a policy says about the channels that nothing can enforce: none of them is what a test is about. */
export const ACCEPTED = `[unenforceable]
websocket     = "tripwire"
webrtc        = "accept"
speculation   = "accept"
sw-update     = "accept"
shared-worker = "accept"
browser-requests = "accept"
resolved-ip   = "accept"
`;

/** The default policy, but for one host that is denied in every way. */
export const policyDenying = host => `policy  = 1
name    = "no-forbidden"
default = "deny"

[[rule]]
id      = "web"
effect  = "allow"
verbs   = ["*"]
to      = "*"
schemes = ["http", "https", "ws", "wss"]
ports   = "*"
local   = true
reason  = "The web"

[[rule]]
id      = "forbidden"
effect  = "deny"
verbs   = ["*"]
to      = { host = "${host}" }
schemes = ["http", "https", "ws", "wss"]
ports   = "*"
reason  = "The tests say so"

${ACCEPTED}
[[test]]
verb   = "navigate"
url    = "http://${host}:1234/"
expect = "deny"
rule   = "forbidden"
`;
