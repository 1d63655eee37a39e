/** Errors of PostgreSQL and its connections, in plain words and without secrets. */
import { SQL } from 'bun'
import { codeOf } from '../../domain/error.ts'

export type PostgresRefusalKind =
  /** No server, no connection, no permission to connect. */
  | 'unreachable'
  /** No response in time. */
  | 'timeout'
  /** A standby, or a read-only database. */
  | 'read_only'
  /** Another transaction was first: try again. */
  | 'conflict'
  | 'failed'

export class PostgresRefusal extends Error {
  constructor(
    readonly kind: PostgresRefusalKind,
    message: string,
    readonly sqlstate: string | null = null,
    /** True if the commit may have succeeded. */
    readonly inDoubt = false,
  ) {
    super(message)
    this.name = 'PostgresRefusal'
  }
}

/** Server codes: the session ended or could not begin. */
const ENDED = /^(57P0[1-5]|08...|53300|28...|3D000|25P0[34])$/
/** Server codes: the session ended, perhaps after the commit. */
const CUT = /^(57P0[125]|08...)$/
const CONFLICTS = /^(40...|55P03|23505)$/
const CANCELED = '57014'
const READ_ONLY = '25006'

/** A named statement of another session, or a missing one: there is a pooler in between. */
const FOREIGN_STATEMENT = /^(42P05|26000)$/

/** Runtime errors, by code without prefix. */
const WORDS: Readonly<Record<string, string>> = {
  // Also for a name that can't be resolved.
  CONNECTION_REFUSED: 'nothing listens there, or its name is unknown',
  CONNECTION_TIMEOUT: 'no answer',
  CONNECTION_CLOSED: 'the connection was closed',
  CONNECTION_FAILED: 'no connection could be opened',
  TLS_NOT_AVAILABLE: 'the server has no TLS; allow a plain connection with ?sslmode=disable only in a trusted network',
  TLS_UPGRADE_FAILED: 'TLS failed',
  CHANNEL_BINDING_REQUIRED: 'the server offers no channel binding',
}
const CERTIFICATE = /^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|CERT_|ERR_TLS_CERT|ERR_SSL|HOSTNAME_|INVALID_CA|ERR_TLS)/

/** Certificate errors, by a part of the code. */
const CERTIFICATE_WORDS: Readonly<Record<string, string>> = {
  ALTNAME: 'is for another name; use that one in the URL, or check only the authority with ?sslmode=verify-ca',
  HOSTNAME: 'is for another name; use that one in the URL, or check only the authority with ?sslmode=verify-ca',
  HAS_EXPIRED: 'has expired',
  NOT_YET_VALID: 'is not valid yet: check both clocks',
}

/** @param isSent false if the server can't have seen a commit. */
export function toRefusal(error: unknown, isSent: boolean): unknown {
  if (error instanceof PostgresRefusal) return error
  const code = codeOf(error)
  if (CERTIFICATE.test(code)) {
    const what =
      Object.entries(CERTIFICATE_WORDS).find(([part]) => code.includes(part))?.[1] ??
      'is not trusted; name its authority in ?sslrootcert='
    return new PostgresRefusal('unreachable', `its certificate ${what} (${code})`)
  }
  if (!(error instanceof SQL.PostgresError)) return error
  const sqlstate = error.errno ?? null
  const text = error.message.slice(0, 300)
  if (sqlstate === null) {
    if (code === 'ERR_POSTGRES_QUERY_CANCELLED') return new PostgresRefusal('timeout', 'no answer in time')
    const name = code.replace('ERR_POSTGRES_', '')
    const isConnection = name in WORDS || /^(CONNECTION|TLS|AUTHENTICATION|UNKNOWN_AUTH|SASL)/.test(name)
    const words = WORDS[name] ?? (text || name)
    return new PostgresRefusal(isConnection ? 'unreachable' : 'failed', words, null, isConnection && isSent)
  }
  if (sqlstate === READ_ONLY) return new PostgresRefusal('read_only', 'it takes no writes', sqlstate)
  if (sqlstate === CANCELED) return new PostgresRefusal('timeout', 'the statement took too long', sqlstate)
  if (ENDED.test(sqlstate) || FOREIGN_STATEMENT.test(sqlstate))
    return new PostgresRefusal('unreachable', text, sqlstate, isSent && CUT.test(sqlstate))
  return new PostgresRefusal(CONFLICTS.test(sqlstate) ? 'conflict' : 'failed', text, sqlstate)
}
