/** What to do about an upstream that could not answer, by the words in which that was found out. Pure. */

/** By what is said of it: the first that fits. */
const ADVICE: readonly [RegExp, string][] = [
  [
    /variable .* is not set|is not there$|is empty$/,
    'Put its key there; a server takes a new variable when it starts, and a file at a reload.',
  ],
  [/\b402\b|quota|credit|billing|has to be paid/i, 'Pay its account, raise its limit there, or give it a further key.'],
  [
    /\/models answered 403/,
    'A key that may list no models may chat all the same, which --call finds out. Else look at its provider what the key, its project or its region may do.',
  ],
  [
    /\b401\b|api[_ ]key|credential|invalid[_ ]key|unauthori[sz]ed/i,
    'Look whether its key is that of this provider, whole and still good; a new one takes its place where the old one is.',
  ],
  [/\b403\b/, 'Look at its provider whether the key, its project or its region may use this model.'],
  [
    /model.*(not exist|not found|does not exist|unknown|no such)|(not found|unknown|no such).*model/i,
    'Look which models its provider has, and name one of those in the route: model of routes in the catalogue.',
  ],
  [
    /\b40[45]\b/,
    'Look at its base_url, which is to end where the paths of its API begin, such as /v1, and at the model of its route.',
  ],
  [/\b429\b|rate limit/i, 'Wait, or give it limits (rpm, tpm) that are those of its provider.'],
  [
    /does not resolve/,
    'Look at the name in its base_url, and whether this machine resolves it: behind a proxy only HTTPS_PROXY does.',
  ],
  [
    /certificate/,
    'Look whether its base_url is right. For a signer of your own start the server with NODE_EXTRA_CA_CERTS=FILE.',
  ],
  [/proxy/i, 'Look at HTTPS_PROXY and NO_PROXY of the server.'],
  [/connection refused|no route to/, 'Look whether it runs, and at host and port of its base_url.'],
  [
    /did not answer in time|in time|timed out|timeout/i,
    'Look whether a firewall is between, or only a proxy leads there: then set HTTPS_PROXY for the server.',
  ],
  [/\b5\d\d\b|broke|reset/, 'The trouble is its own: look at the status page of its provider, and try again.'],
]

/** A sentence; null where nobody knows better. */
export const toAdvice = (said: string): string | null => ADVICE.find(([words]) => words.test(said))?.[1] ?? null
