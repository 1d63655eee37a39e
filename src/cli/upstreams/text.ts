/**
 * Upstreams in words, for people: the table of `upstreams list`, what `doctor` says of them, and what to do about one that could not answer,
 * by the words in which that was found out. Pure.
 */

import type { ShownCredential, ShownUpstream, UpstreamFacts } from '../../documents/upstream.ts'
import { DEADLINE_NAMES, DEADLINES } from '../../domain/deadlines.ts'
import { count } from '../../domain/text.ts'
import { toAgo, toSpan } from '../../domain/time.ts'
import { toDescribedTable, toPrintable } from '../io.ts'
import type { Paint } from '../terminal.ts'

/** The table of `upstreams list`: one line an upstream that fits a terminal, and beneath it how it is and what it is given. */
export function toUpstreamTable(rows: readonly ShownUpstream[], nowMs: number, paint: Paint): string {
  const notes = rows.map((row) => toNotes(row, nowMs).map(toPrintable))
  return toDescribedTable(['ID', 'STATE', 'CREDENTIAL', 'ADDRESS'], rows.map(toCells), notes, paint)
}

function toCells({ id, state, credentials, base_url: address, process }: ShownUpstream): string[] {
  return [id, state.replace('_', ' '), toKeyCell(credentials), address ?? (process ? 'started here' : '-')].map(
    toPrintable,
  )
}

function toKeyCell(credentials: readonly ShownCredential[]): string {
  const [first, ...others] = credentials
  if (!first) return '-'
  const used = credentials.filter(({ status }) => status === 'set').length
  if (others.length > 0) return `${used} of ${credentials.length} in use`
  return `${first.name ?? 'typed in,'} ${first.status.replace('_', ' ')}`
}

/** Such as `credential 2 (OPENAI_KEY_2): returned 401: invalid or expired credential; tried again in 4m`: those that are not used. */
export const toUnusedCredentials = ({ credentials }: Pick<ShownUpstream, 'credentials'>): string[] =>
  credentials.length < 2
    ? []
    : credentials
        .filter(({ status }) => status !== 'set')
        .map(({ number, name, reason, retry_in_ms: ms }) => {
          const again =
            ms === null
              ? ''
              : `; tried again in ${ms < 60_000 ? `${Math.ceil(ms / 1_000)}s` : `${Math.ceil(ms / 60_000)}m`}`
          return `credential ${number} (${name ?? 'typed in'}) is left out: ${reason ?? 'no reason is known'}${again}`
        })

function toNotes(row: ShownUpstream, nowMs: number): string[] {
  const breakers = toBreakers(row)
  return [
    toTrouble(row, nowMs) ?? '',
    toServerNote(row) ?? '',
    ...toUnusedCredentials(row),
    breakers === 'closed' || breakers === '-' ? '' : `breakers: ${breakers}`,
    `${row.preset === null ? '' : `preset ${row.preset}, `}${row.dialect}; ${toDeadlines(row.deadlines)}`,
  ]
}

/** How its model server stands, such as `its server: ready, answering 2, 3 queued, 4.2 GiB`; null where it has none here. */
export function toServerNote({ process: server }: Pick<ShownUpstream, 'process'>): string | null {
  if (server === null) return null
  const { state, reason, answering, queued, memory_bytes: bytes } = server
  const parts = [
    state,
    answering > 0 && `answering ${answering}`,
    queued > 0 && `${queued} queued`,
    bytes !== null && `${(bytes / 2 ** 30).toFixed(1)} GiB`,
  ]
  return `its server: ${parts.filter(Boolean).join(', ')}${reason === null ? '' : `; ${reason}`}`
}

/** Such as `1 of 3 not closed: openai/gpt-4o open for 8s, for 2 keys only`. */
export function toBreakers({ targets }: Pick<ShownUpstream, 'targets'>): string {
  if (targets.length === 0) return '-'
  const tripped = targets.filter(({ breaker }) => breaker !== 'closed')
  if (tripped.length === 0) return 'closed'
  const which = tripped.map((target) => `${target.model} ${toPhase(target)}`)
  return `${tripped.length} of ${targets.length} not closed: ${which.join(', ')}`
}

/** A half-open one has to wait only while another request is its probe. */
function toPhase({ breaker, retry_in_ms: ms, open_for_keys: keys }: ShownUpstream['targets'][number]): string {
  const whose = keys === null ? '' : ` for ${count(keys, 'key')} only`
  if (breaker === 'half_open') return `half-open${whose}${ms === 0 ? '' : ', its probe under way'}`
  return `${ms === null ? 'open' : `open for ${Math.ceil(ms / 1_000)}s`}${whose}`
}

const toDeadlines = (deadlines: UpstreamFacts['deadlines']) =>
  DEADLINE_NAMES.map((name) => `${DEADLINES[name].word} ${toSpan(deadlines[`${DEADLINES[name].field}_ms`])}`).join(', ')

/** Why an upstream is not up and what went wrong last; null where nothing did. */
export function toTrouble({ reason, last_error: error }: ShownUpstream, nowMs: number): string | null {
  const last = error && `${error.message} (${toAgo(error.at_ms, nowMs)})`
  if (reason === null || reason === error?.message) return last
  return last ? `${reason}; last error: ${last}` : reason
}

/** By what is said of it: the first that fits. */
const ADVICE: readonly [RegExp, string][] = [
  [
    /variable .* is not set|is not there$|is empty$/,
    'Put its key there; a server takes a new variable when it starts, and a file at a reload.',
  ],
  [
    /\b402\b|quota|credit|billing|payment required/i,
    'Pay its account, raise its limit there, or give it a further key.',
  ],
  [
    /\/models returned 403/,
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
    /timed out|timeout/i,
    'Look whether a firewall is between, or only a proxy leads there: then set HTTPS_PROXY for the server.',
  ],
  [/\b5\d\d\b|broke|reset/, 'The trouble is its own: look at the status page of its provider, and try again.'],
]

/** A sentence; null where nobody knows better. */
export const toAdvice = (said: string): string | null => ADVICE.find(([words]) => words.test(said))?.[1] ?? null
