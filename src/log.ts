/**
 * Structured log: one JSON object per line on standard error. A slow reader loses lines but costs no memory or time.
 * Message content is never logged, other client text is truncated, and secrets are masked. Lines about rejected
 * requests are limited per minute.
 */
import { write } from 'node:fs'

export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>

/**
 * A stable name to search and alert on. Messages may be reworded, and several may share an event; an event never
 * changes its meaning.
 */
export type LogEvent =
  // One request
  | 'request_finished'
  | 'request_refused'
  | 'refusals_collapsed'
  | 'models_listed'
  // Batches
  | 'batch_created'
  | 'batch_submitted'
  | 'batch_waiting'
  | 'batch_ended'
  | 'batch_failed'
  | 'batch_unwritable'
  // Upstreams and budgets
  | 'upstream_not_ready'
  | 'upstream_down'
  | 'upstream_up'
  | 'upstream_deprioritized'
  | 'upstream_cleared'
  | 'credential_suspended'
  | 'credential_restored'
  | 'breaker_opened'
  | 'breaker_closed'
  | 'budget_threshold'
  | 'limits_apart'
  | 'limits_rejected'
  | 'limits_shared'
  // Managed model servers
  | 'process_started'
  | 'process_ready'
  | 'model_facts_mismatch'
  | 'process_stopped'
  | 'process_failed'
  | 'process_unhealthy'
  | 'process_too_large'
  | 'process_memory_not_saved'
  | 'process_ignored'
  | 'process_orphaned'
  // The ledger
  | 'database_updating'
  | 'ledger_recovered'
  | 'ledger_behind'
  | 'ledger_caught_up'
  | 'ledger_row_rejected'
  | 'ledger_unshipped'
  | 'ledger_shipped'
  | 'ledger_shipping_again'
  | 'refusals_behind'
  | 'journal_failed'
  | 'journal_full'
  | 'journal_retained'
  | 'ledger_pruned'
  | 'retention_failed'
  | 'disk_filling'
  | 'disk_recovered'
  | 'disk_unknown'
  | 'checkpoint_failed'
  | 'counting_failed'
  // The server and its configuration
  | 'server_started'
  | 'server_restarting'
  | 'restart_failed'
  | 'server_stopping'
  | 'clock_skew'
  | 'certificate_applied'
  | 'certificate_rejected'
  | 'certificate_failed'
  | 'certificate_expiring'
  | 'data_missing'
  | 'data_recovered'
  | 'backup_created'
  | 'backup_failed'
  | 'alert_delivered'
  | 'alert_failed'
  | 'restore_recovered'
  | 'control_unavailable'
  | 'telemetry_failed'
  | 'telemetry_recovered'
  | 'file_descriptors_low'
  | 'server_overloaded'
  | 'worker_behind'
  | 'server_recovered'
  | 'worker_started'
  | 'worker_ended'
  | 'worker_hung'
  | 'config_applied'
  | 'config_rejected'
  | 'restart_needed'
  | 'config_unreadable'
  | 'config_readable'
  | 'catalog_overridden'
  | 'catalog_deprecated'
  | 'upstream_discovered'
  | 'first_key_failed'
  | 'oidc_failed'
  | 'sign_in_failed'
  | 'proxy_not_trusted'
  // A cluster
  | 'postgres_unreachable'
  | 'postgres_reachable'
  | 'postgres_deaf'
  | 'cluster_leader'
  | 'cluster_fenced'
  | 'cluster_joined_again'
  | 'cluster_failed'
  | 'config_stale'
  | 'config_current'
  | 'config_replaced'
  | 'config_change_lost'
  | 'config_snapshot_failed'
  // A bug; its line has a stack trace
  | 'internal_error'

export interface Log {
  info(event: LogEvent, message: string, fields?: LogFields): void
  warn(event: LogEvent, message: string, fields?: LogFields): void
  error(event: LogEvent, message: string, fields?: LogFields): void
  /** Writes all buffered lines, counted rejections included; resolves once they are written. */
  flush(): Promise<void>
}

export type LogLevel = 'info' | 'warn' | 'error'

export interface LeveledLog extends Log {
  setLevel(level: LogLevel): void
}

export interface LogOptions {
  now(): number
  /** Resolves once the lines are written. Default: standard error. */
  write?(lines: Buffer): Promise<void>
  after?(ms: number, then: () => void): void
}

interface Head {
  ms: number
  time: string
  level: LogLevel
  event: LogEvent
  message: string
  text: string
}

const [COMMA = 0, NEWLINE = 0] = Buffer.from(',\n')
const FLUSH_MS = 100
const MAX_GATHERED_BYTES = 4 * 1024 * 1024
const CHUNK_BYTES = 64 * 1024
/** Fields that clients can set, and the maximum length logged. */
const FROM_CLIENTS = ['path', 'method', 'param', 'model', 'endpoint', 'user_agent'] as const
const MAX_CHARS = 200
/**
 * Lines per interval for rejections with the same key, status, and code, or of the same account; more are only counted.
 */
const MAX_REFUSALS = 20
const REFUSALS_MS = 60_000
/**
 * Our keys, known formats of providers' keys (Google: `AIza`, `AQ.`, `ya29.`; Amazon: `AKIA`), signed tokens (RFC
 * 7519), and non-words after `Bearer`.
 */
const SECRETS =
  /\b(?:(?:[spr]k|gsk|xai)[-_]|(?:csk|nvapi|pplx|tvly|glpat|xox[abprs])-|(?:hf|r8|fw|gh[opsur]|github_pat)_|AIza|AQ\.|ya29\.|A[KS]IA|eyJ)[A-Za-z0-9_-]{12,}(?:\.[A-Za-z0-9_-]+){0,2}|\b[Bb]earer\s+(?=[^\s"\\]*(?:[\d_~+/=-]|\.\w)|[^\s"\\]{16})[^\s"\\]+/g

/** Contained in every match, but in few other lines: halves the time. */
const HINT = /(?:[-_.]|AIza|A[KS]IA|eyJ)[\w-]{12}|earer\s/

/** Masks anything that looks like a credential. */
export function redact(text: string): string {
  if (!HINT.test(text)) return text
  return text.replace(SECRETS, (secret) => `${secret.slice(0, 3)}…${secret.slice(-4)}`)
}

/** Masks before truncating: half a secret would not be recognized. */
function cutClientText(fields: LogFields): LogFields {
  let short = fields
  for (const name of FROM_CLIENTS) {
    const text = fields[name]
    if (typeof text !== 'string' || text.length <= MAX_CHARS) continue
    short = { ...short, [name]: `${redact(text).slice(0, MAX_CHARS)}…` }
  }
  return short
}

/** With its stack trace. */
export const traceOf = (error: unknown): string =>
  error instanceof Error ? (error.stack ?? error.message) : String(error)

export function createLog({
  now,
  write: send = writeAll.bind(null, 2),
  after = (ms, then) => setTimeout(then, ms).unref(),
}: LogOptions): LeveledLog {
  let level: LogLevel = 'info'
  let chunk: Buffer | null = null
  let used = 0
  /** A written buffer: reusing its memory is cheaper. */
  let spare: Buffer | null = null
  let bytes = 0
  let dropped = 0
  let head: Head = { ms: -1, time: '', level: 'info', event: 'server_started', message: '', text: '' }
  let timer: ReturnType<typeof setTimeout> | null = null
  let writing: Promise<void> = Promise.resolve()

  const flush = (): Promise<void> => {
    if (timer) clearTimeout(timer)
    timer = null
    if (chunk === null) return writing
    const full = chunk
    const lines = chunk.subarray(0, used)
    chunk = null
    const done = () => {
      bytes -= lines.length
      if (full.length === CHUNK_BYTES) spare = full
    }
    writing = writing.then(() => send(lines)).then(done, done)
    return writing
  }

  /** Returns a buffer with at least `most` bytes free after `used`. */
  const toRoom = (most: number): Buffer => {
    if (chunk !== null && chunk.length - used < most) flush()
    if (chunk !== null) return chunk
    used = 0
    if (most > CHUNK_BYTES) chunk = Buffer.allocUnsafeSlow(most)
    else {
      chunk = spare ?? Buffer.allocUnsafeSlow(CHUNK_BYTES)
      spare = null
    }
    return chunk
  }

  /** Formatting a date costs more than the rest of a line, and many lines share it. */
  const toHead = (level: LogLevel, event: LogEvent, message: string): string => {
    const ms = now()
    if (ms === head.ms && event === head.event && message === head.message && level === head.level) return head.text
    const time = ms === head.ms ? head.time : new Date(ms).toISOString()
    const text = redact(`{"time":"${time}","level":"${level}","event":"${event}","msg":${JSON.stringify(message)}`)
    head = { ms, time, level, event, message, text }
    return text
  }

  /** Encodes at once: thousands of strings would have left the cache by the time they are written. */
  const line = (level: LogLevel, event: LogEvent, message: string, fields: LogFields = {}) => {
    if (bytes > MAX_GATHERED_BYTES) {
      dropped++
      return
    }
    const lost = dropped > 0 ? `,"lines_lost":${dropped}` : ''
    dropped = 0
    const head = toHead(level, event, message) + lost
    const more = redact(JSON.stringify(cutClientText(fields)))
    const rest = more === '{}' ? '}' : more
    const lines = toRoom(3 * (head.length + rest.length) + 1)
    const from = used
    used += lines.write(head, used)
    const end = used
    used += lines.write(rest, used)
    if (rest !== '}') lines[end] = COMMA
    lines[used++] = NEWLINE
    bytes += used - from
    timer ??= setTimeout(flush, FLUSH_MS)
  }

  const isWritten = (of: LogLevel) => level === 'info' || of === level

  /** By key or account, status, and code. */
  const refusals = new Map<string, { level: LogLevel; about: LogFields; count: number }>()
  let isCounting = false

  const writeRefusals = () => {
    for (const { level: of, about, count } of refusals.values())
      if (count > MAX_REFUSALS && isWritten(of))
        line(of, 'refusals_collapsed', 'similar rejections not logged', { ...about, count: count - MAX_REFUSALS })
    refusals.clear()
  }

  const isFew = (of: LogLevel, { key, http, code, method, account }: LogFields = {}): boolean => {
    if (!isCounting)
      after(REFUSALS_MS, () => {
        isCounting = false
        writeRefusals()
      })
    isCounting = true
    const about = of === 'info' ? { key, http, code } : { method, account, code }
    const same = refusals.getOrInsertComputed(Object.values(about).join(' '), () => ({ level: of, about, count: 0 }))
    return ++same.count <= MAX_REFUSALS
  }

  return {
    info(event, message, fields) {
      if (isWritten('info') && (event !== 'request_refused' || isFew('info', fields)))
        line('info', event, message, fields)
    },
    warn(event, message, fields) {
      if (isWritten('warn') && (event !== 'sign_in_failed' || isFew('warn', fields)))
        line('warn', event, message, fields)
    },
    error: (event, message, fields) => line('error', event, message, fields),
    setLevel(wanted) {
      level = wanted
    },
    flush() {
      writeRefusals()
      return flush()
    },
  }
}

/** Off the main thread; waits if the pipe is full. `process.stdout` would take a tenth of a start, and 7 MB, to load. */
export async function writeAll(fd: 1 | 2, bytes: Uint8Array): Promise<void> {
  let rest = bytes
  while (rest.length > 0) {
    const chunk = rest
    const written = await new Promise<number>((resolve, reject) => {
      write(fd, chunk, 0, chunk.length, null, (error, count) => {
        if (!error) return resolve(count)
        if (error.code !== 'EAGAIN') return reject(error)
        setTimeout(() => resolve(0), 10)
      })
    })
    rest = rest.subarray(written)
  }
}
