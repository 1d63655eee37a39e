/** Text output of upstreams, and advice by error message. */

import type { ShownCredential, ShownUpstream, UpstreamFacts } from '../../documents/upstream.ts'
import { DEADLINE_NAMES, DEADLINES } from '../../domain/deadlines.ts'
import { count } from '../../domain/text.ts'
import { toAgo, toSpan } from '../../domain/time.ts'
import { toDescribedTable, toPrintable } from '../io.ts'
import type { Paint } from '../terminal.ts'

export function toUpstreamTable(rows: readonly ShownUpstream[], nowMs: number, paint: Paint): string {
  const notes = rows.map((row) => toNotes(row, nowMs).map(toPrintable))
  return toDescribedTable(['ID', 'STATE', 'CREDENTIAL', 'URL'], rows.map(toCells), notes, paint)
}

function toCells({ id, state, credentials, base_url: address, process }: ShownUpstream): string[] {
  return [id, state.replace('_', ' '), toKeyCell(credentials), address ?? (process ? 'local process' : '-')].map(
    toPrintable,
  )
}

function toKeyCell(credentials: readonly ShownCredential[]): string {
  const [first, ...others] = credentials
  if (!first) return '-'
  const used = credentials.filter(({ status }) => status === 'set').length
  if (others.length > 0) return `${used} of ${credentials.length} in use`
  return `${first.name ?? 'stored,'} ${first.status.replace('_', ' ')}`
}

/** Such as `credential 2 (OPENAI_KEY_2) is suspended: returned 401: invalid or expired credential; retry in 4m`. */
export const toUnusedCredentials = ({ credentials }: Pick<ShownUpstream, 'credentials'>): string[] =>
  credentials.length < 2
    ? []
    : credentials
        .filter(({ status }) => status !== 'set')
        .map(({ number, name, reason, retry_in_ms: ms }) => {
          const again =
            ms === null ? '' : `; retry in ${ms < 60_000 ? `${Math.ceil(ms / 1_000)}s` : `${Math.ceil(ms / 60_000)}m`}`
          return `credential ${number} (${name ?? 'stored'}) is suspended: ${reason ?? 'unknown reason'}${again}`
        })

function toNotes(row: ShownUpstream, nowMs: number): string[] {
  const breakers = toBreakers(row)
  return [
    toTrouble(row, nowMs) ?? '',
    toServerNote(row) ?? '',
    ...toUnusedCredentials(row),
    breakers === 'closed' || breakers === '-' ? '' : `circuit breakers: ${breakers}`,
    `${row.preset === null ? '' : `preset ${row.preset}, `}API format ${row.dialect}; deadlines: ${toDeadlines(row.deadlines)}`,
  ]
}

/** Such as `server: ready, 2 in flight, 3 queued, 4.2 GiB`; null without a local process. */
export function toServerNote({ process: server }: Pick<ShownUpstream, 'process'>): string | null {
  if (server === null) return null
  const { state, reason, answering, queued, memory_bytes: bytes } = server
  const parts = [
    state,
    answering > 0 && `${answering} in flight`,
    queued > 0 && `${queued} queued`,
    bytes !== null && `${(bytes / 2 ** 30).toFixed(1)} GiB`,
  ]
  return `server: ${parts.filter(Boolean).join(', ')}${reason === null ? '' : `; ${reason}`}`
}

/** Such as `1 of 3 not closed: openai/gpt-4o open for 8s, for 2 keys only`. */
export function toBreakers({ targets }: Pick<ShownUpstream, 'targets'>): string {
  if (targets.length === 0) return '-'
  const tripped = targets.filter(({ breaker }) => breaker !== 'closed')
  if (tripped.length === 0) return 'closed'
  const which = tripped.map((target) => `${target.model} ${toPhase(target)}`)
  return `${tripped.length} of ${targets.length} not closed: ${which.join(', ')}`
}

/** A half-open breaker has a wait only during its test request. */
function toPhase({ breaker, retry_in_ms: ms, open_for_keys: keys }: ShownUpstream['targets'][number]): string {
  const whose = keys === null ? '' : ` for ${count(keys, 'key')} only`
  if (breaker === 'half_open') return `half-open${whose}${ms === 0 ? '' : ', test request running'}`
  return `${ms === null ? 'open' : `open for ${Math.ceil(ms / 1_000)}s`}${whose}`
}

const toDeadlines = (deadlines: UpstreamFacts['deadlines']) =>
  DEADLINE_NAMES.map((name) => `${DEADLINES[name].word} ${toSpan(deadlines[`${DEADLINES[name].field}_ms`])}`).join(', ')

/** With its last error; null if available. */
export function toTrouble({ reason, last_error: error }: ShownUpstream, nowMs: number): string | null {
  const last = error && `${error.message} (${toAgo(error.at_ms, nowMs)})`
  if (reason === null || reason === error?.message) return last
  return last ? `${reason}; last error: ${last}` : reason
}

/** The first match applies. */
const ADVICE: readonly [RegExp, string][] = [
  [
    /variable .* is not set|file .* does not exist$|is empty$/,
    'Set the key there. The server reads variables at startup and files on reload.',
  ],
  [
    /\b402\b|quota|credit|billing|payment required/i,
    'Add credit or raise the limit at the provider, or add another key.',
  ],
  [
    /\/models returned 403/,
    "The key can't list models but may still work: try --call. Else check the permissions of the key, project, or region at the provider.",
  ],
  [
    /\b401\b|api[_ ]key(?! or )|credential(?! or account)|invalid[_ ]key|unauthori[sz]ed/i,
    'Check that the key is complete, valid, and for this provider. To replace it: tollgate upstreams edit ID --key',
  ],
  [/\b403\b|not permitted/, 'Check at the provider whether the key, project, or region has access to this model.'],
  [
    /model.*(not exist|not found|does not exist|unknown|no such)|(not found|unknown|no such).*model/i,
    'Check which models the provider offers, and set one as `model` of the route in the catalog.',
  ],
  [/\b40[45]\b/, 'Check base_url, which must end before the API paths, e.g. in /v1, and the model of the route.'],
  [
    /\b429\b|rate limit/i,
    "Wait, or set rpm and tpm to the provider's limits: tollgate upstreams edit ID --rpm N --tpm N",
  ],
  [/does not resolve/, 'Check the host in base_url and the DNS of this machine. Behind a proxy, set HTTPS_PROXY.'],
  [/certificate/, 'Check base_url. For a private CA, start the server with NODE_EXTRA_CA_CERTS=FILE.'],
  [/proxy/i, 'Check HTTPS_PROXY and NO_PROXY of the server.'],
  [
    /connection refused|ECONNREFUSED|no route to/,
    'Check that it is running and that base_url has the right host and port.',
  ],
  [/timed out|timeout/i, 'Check for a firewall. If a proxy is required, set HTTPS_PROXY for the server.'],
  [/\b5\d\d\b|closed the connection|reset/, "Provider error. Check the provider's status page, then try again."],
]

export const toAdvice = (said: string): string | null => ADVICE.find(([words]) => words.test(said))?.[1] ?? null
