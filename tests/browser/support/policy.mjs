// Policy files for tests.

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
reason  = "The web"

[[rule]]
id      = "forbidden"
effect  = "deny"
verbs   = ["*"]
to      = { host = "${host}" }
schemes = ["http", "https", "ws", "wss"]
ports   = "*"
reason  = "The tests say so"

[[test]]
verb   = "navigate"
url    = "http://${host}:1234/"
expect = "deny"
rule   = "forbidden"
`;
