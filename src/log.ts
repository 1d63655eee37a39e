/**
 * Structured log lines: one JSON object a line on standard error, gathered in memory and written off the hot path.
 * A reader that does not keep up costs lines, never memory or time. Nothing that a client sent or got is logged, and
 * whatever looks like a secret is masked on the way out.
 */
import { write } from 'node:fs'

export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>

/**
 * What happened, as a name to search and alert on. A sentence may be reworded and several may share a name; a name never
 * changes its meaning.
 */
export type LogEvent =
  // One request
  | 'request_finished'
  | 'request_refused'
  | 'models_listed'
  // Upstreams, and what is spent on them
  | 'upstream_not_ready'
  | 'upstream_down'
  | 'upstream_up'
  | 'upstream_penalised'
  | 'upstream_cleared'
  | 'credential_left_out'
  | 'credential_back'
  | 'breaker_opened'
  | 'breaker_closed'
  | 'budget_threshold'
  // Model servers that run here
  | 'process_started'
  | 'process_ready'
  | 'facts_differ'
  | 'process_stopped'
  | 'process_failed'
  | 'process_sick'
  | 'process_too_large'
  | 'process_memory_unkept'
  | 'process_ignored'
  | 'process_left'
  // The ledger
  | 'ledger_recovered'
  | 'ledger_behind'
  | 'ledger_caught_up'
  | 'ledger_row_rejected'
  | 'journal_failed'
  | 'journal_full'
  | 'journal_kept'
  | 'ledger_pruned'
  | 'retention_failed'
  | 'disk_filling'
  | 'disk_has_room'
  | 'disk_unknown'
  | 'checkpoint_failed'
  | 'counting_failed'
  // The server and its configuration
  | 'server_started'
  | 'server_stopping'
  | 'clock_wrong'
  | 'data_lost'
  | 'data_found'
  | 'backup_made'
  | 'backup_failed'
  | 'restore_settled'
  | 'control_unavailable'
  | 'files_short'
  | 'server_full'
  | 'server_has_room'
  | 'config_applied'
  | 'config_rejected'
  | 'restart_needed'
  | 'config_unreadable'
  | 'config_readable'
  | 'catalog_conflict'
  | 'upstream_discovered'
  | 'first_key_failed'
  | 'provider_failed'
  // A bug: its line has a trace
  | 'internal_error'

export interface Log {
  info(event: LogEvent, message: string, fields?: LogFields): void
  warn(event: LogEvent, message: string, fields?: LogFields): void
  error(event: LogEvent, message: string, fields?: LogFields): void
  /** Writes out what is gathered and resolves when it has left. */
  flush(): Promise<void>
}

/** From which lines on: `info` is all of them. */
export type LogLevel = 'info' | 'warn' | 'error'

/** A log whose level its owner may set. */
export interface LeveledLog extends Log {
  setLevel(level: LogLevel): void
}

export interface LogOptions {
  now(): number
  /** Writes lines somewhere and resolves when they are gone. Default: standard error. */
  write?(lines: Buffer): Promise<void>
}

const FLUSH_MS = 100
const MAX_GATHERED_BYTES = 4 * 1024 * 1024
const CHUNK_BYTES = 64 * 1024
/**
 * Our keys, the shapes in which providers' keys come (Google's begin with `AIza`, `AQ.` or `ya29.`, Amazon's with `AKIA`),
 * signed tokens (RFC 7519), and what follows `Bearer` where it is no word.
 */
const SECRETS =
  /\b(?:(?:[spr]k|gsk|xai)[-_]|(?:csk|nvapi|pplx|tvly|glpat|xox[abprs])-|(?:hf|r8|fw|gh[opsur]|github_pat)_|AIza|AQ\.|ya29\.|A[KS]IA|eyJ)[A-Za-z0-9_-]{12,}(?:\.[A-Za-z0-9_-]+){0,2}|\b[Bb]earer\s+(?=[^\s"\\]*(?:[\d_~+/=-]|\.\w)|[^\s"\\]{16})[^\s"\\]+/g

/** Something of this is in each of them, and in few other lines: it is found, or not, in half the time. */
const HINT = /(?:[-_.]|AIza|A[KS]IA|eyJ)[\w-]{12}|earer\s/

/** Masks everything in a text that looks like a credential. */
export function redact(text: string): string {
  if (!HINT.test(text)) return text
  return text.replace(SECRETS, (secret) => `${secret.slice(0, 3)}…${secret.slice(-4)}`)
}

/** An error that nobody expected, as the log has it: with where it came from. */
export const traceOf = (error: unknown): string =>
  error instanceof Error ? (error.stack ?? error.message) : String(error)

export function createLog({ now, write: send = toStandardError }: LogOptions): LeveledLog {
  let level: LogLevel = 'info'
  let gathered: Buffer[] = []
  /** What is written of the last one. */
  let used = 0
  /** Of all that is gathered, together with what is on its way out. */
  let bytes = 0
  let dropped = 0
  let time = { ms: -1, text: '' }
  let timer: ReturnType<typeof setTimeout> | null = null
  let writing: Promise<void> = Promise.resolve()

  const flush = (): Promise<void> => {
    if (timer) clearTimeout(timer)
    timer = null
    const last = gathered.pop()
    if (!last) return writing
    const lines = Buffer.concat([...gathered, last.subarray(0, used)])
    gathered = []
    const done = () => {
      bytes -= lines.length
    }
    writing = writing.then(() => send(lines)).then(done, done)
    return writing
  }

  /** A line becomes bytes at once: as one of thousands of strings it would be read when it has long left the cache. */
  const gather = (text: string) => {
    const most = 3 * text.length
    let chunk = gathered.at(-1)
    if (chunk === undefined || chunk.length - used < most) {
      if (chunk) gathered[gathered.length - 1] = chunk.subarray(0, used)
      chunk = Buffer.allocUnsafe(Math.max(CHUNK_BYTES, most))
      gathered.push(chunk)
      used = 0
    }
    const written = chunk.write(text, used)
    used += written
    bytes += written
  }

  /** A date costs more than the rest of a line, and many lines share their millisecond. */
  const timeText = () => {
    const ms = now()
    if (ms !== time.ms) time = { ms, text: new Date(ms).toISOString() }
    return time.text
  }

  const line = (level: string, event: LogEvent, message: string, fields: LogFields = {}) => {
    if (bytes > MAX_GATHERED_BYTES) {
      dropped++
      return
    }
    const lost = dropped > 0 ? `"lines_lost":${dropped},` : ''
    dropped = 0
    const rest = JSON.stringify(fields)
    const text = `{"time":"${timeText()}","level":"${level}","event":"${event}","msg":${JSON.stringify(message)}${rest === '{}' ? '' : ','}${lost}${rest.slice(1)}\n`
    gather(redact(text))
    timer ??= setTimeout(flush, FLUSH_MS)
  }

  return {
    info(event, message, fields) {
      if (level === 'info') line('info', event, message, fields)
    },
    warn(event, message, fields) {
      if (level !== 'error') line('warn', event, message, fields)
    },
    error: (event, message, fields) => line('error', event, message, fields),
    setLevel(wanted) {
      level = wanted
    },
    flush,
  }
}

/** Writes all of it to standard error, on a thread of its own; waits where the pipe is full. */
async function toStandardError(lines: Uint8Array): Promise<void> {
  let rest = lines
  while (rest.length > 0) {
    const chunk = rest
    const written = await new Promise<number>((resolve, reject) => {
      write(2, chunk, 0, chunk.length, null, (error, count) => {
        if (!error) return resolve(count)
        if (error.code !== 'EAGAIN') return reject(error)
        setTimeout(() => resolve(0), 10)
      })
    })
    rest = rest.subarray(written)
  }
}
