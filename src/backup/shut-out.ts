/**
 * What a restore must not bring back: keys that the database which it replaces had revoked, and secrets that it had ended or no longer knows of a
 * key that it has; sessions, people who were disabled since, tokens that were revoked since, and passwords, codes and passkeys that are others by
 * now. Reads and writes tables that every version has had.
 */
import type { Database } from 'bun:sqlite'

/** Of a database: when each key was revoked, and until when each of its secrets works; null = no end. */
export interface KnownKeys {
  revokedMs: ReadonlyMap<string, number | null>
  secretEndsMs: ReadonlyMap<string, number | null>
  /** Keys that had ended before then may be missing: retention removes them. 0 = none was removed. */
  keysFromMs: number
}

/** Throws what SQLite says where the tables cannot be read. */
export function readKnown(sqlite: Database): KnownKeys {
  const keys = sqlite.query<{ id: string; ms: number | null }, []>('SELECT id, revoked_ms AS ms FROM keys').all()
  const secrets = sqlite
    .query<{ hash: string; ms: number | null }, []>('SELECT hash, expires_ms AS ms FROM key_secrets')
    .all()
  const from = sqlite.query<{ value: string }, []>("SELECT value FROM settings WHERE key = 'keys_from'").get()
  return {
    keysFromMs: Number(from?.value ?? 0),
    revokedMs: new Map(keys.map(({ id, ms }) => [id, ms])),
    secretEndsMs: new Map(secrets.map(({ hash, ms }) => [hash, ms])),
  }
}

/** What was kept from coming back. */
export interface Kept {
  /** Names of keys that stay revoked. */
  revoked: string[]
  /** Secrets that stay ended. */
  secretsEnded: number
  /** Names of keys that are in force and have no secret left: another one was made after the backup. */
  withoutSecret: string[]
}

/** Has the keys of a copy let nobody in whom the other database would not have let in by the same secret. */
export function keepRevoked(copy: Database, known: KnownKeys, nowMs: number): Kept {
  const revoke = copy.query('UPDATE keys SET revoked_ms = ? WHERE id = ?')
  const end = copy.query('UPDATE key_secrets SET expires_ms = ? WHERE hash = ?')
  const keys = copy
    .query<{ id: string; name: string; createdMs: number }, []>(
      'SELECT id, name, created_ms AS createdMs FROM keys WHERE revoked_ms IS NULL ORDER BY id',
    )
    .all()
  // For a restore after this one.
  if (known.keysFromMs > 0)
    copy
      .query(
        `INSERT INTO settings (key, value, updated_ms) VALUES ('keys_from', ?, ?) ON CONFLICT (key) DO UPDATE
         SET value = MAX(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))`,
      )
      .run(String(known.keysFromMs), nowMs)
  const kept: Kept = { revoked: [], secretsEnded: 0, withoutSecret: [] }
  for (const { id, name, createdMs } of keys) {
    const isRemoved = !known.revokedMs.has(id) && createdMs < known.keysFromMs
    const revokedMs = isRemoved ? known.keysFromMs : known.revokedMs.get(id)
    if (revokedMs === undefined) continue
    if (revokedMs !== null) {
      revoke.run(revokedMs, id)
      kept.revoked.push(name)
      continue
    }
    const secrets = secretsOf(copy, id)
    const ended = secrets.filter(({ hash, endsMs }) => {
      const knownMs = known.secretEndsMs.has(hash) ? known.secretEndsMs.get(hash) : nowMs
      if (knownMs == null || (endsMs !== null && endsMs <= knownMs)) return false
      end.run(knownMs, hash)
      return true
    })
    kept.secretsEnded += ended.length
    if (ended.length > 0 && !secretsOf(copy, id).some(({ endsMs }) => endsMs === null || endsMs > nowMs))
      kept.withoutSecret.push(name)
  }
  return kept
}

const secretsOf = (copy: Database, keyId: string) =>
  copy
    .query<{ hash: string; endsMs: number | null }, [string]>(
      'SELECT hash, expires_ms AS endsMs FROM key_secrets WHERE key_id = ?',
    )
    .all(keyId)

/** What a database says of how people and scripts come in; nothing, where it is older than that. */
export interface KnownPeople {
  admins: readonly KnownAdmin[]
  /** When each token was revoked, by its id. */
  tokens: ReadonlyMap<string, number | null>
  passkeys: readonly Passkey[]
}

interface KnownAdmin {
  id: string
  password_hash: string | null
  code_hash: string | null
  code_expires_ms: number | null
  disabled_ms: number | null
}

const PASSKEY = [
  ...['id', 'admin_id', 'name', 'credential_id', 'public_key', 'counter', 'transports', 'rp_id', 'created_ms'],
  'used_ms',
] as const
type Passkey = Record<(typeof PASSKEY)[number], string | number | null>

/** Throws what SQLite says where the tables cannot be read. */
export function readPeople(sqlite: Database): KnownPeople {
  const isThere = sqlite.query<object, [string]>("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?")
  const all = <Row>(table: string, columns: readonly string[]) =>
    isThere.get(table) === null ? [] : sqlite.query<Row, []>(`SELECT ${columns.join(', ')} FROM ${table}`).all()
  const tokens = all<{ id: string; revoked_ms: number | null }>('admin_tokens', ['id', 'revoked_ms'])
  return {
    admins: all<KnownAdmin>('admins', ['id', 'password_hash', 'code_hash', 'code_expires_ms', 'disabled_ms']),
    tokens: new Map(tokens.map(({ id, revoked_ms: ms }) => [id, ms])),
    passkeys: all<Passkey>('admin_passkeys', PASSKEY),
  }
}

/** Who was kept from coming back, by name. */
export interface KeptPeople {
  disabled: string[]
  tokens: string[]
}

/** Has the people whom the other database knows come in to a copy as they do there, or not at all. */
export function keepShutOut(copy: Database, known: KnownPeople): KeptPeople {
  const kept: KeptPeople = { disabled: [], tokens: [] }
  const admin = copy.query<{ name: string; disabled_ms: number | null }, [string]>(
    'SELECT name, disabled_ms FROM admins WHERE id = ?',
  )
  for (const { id, disabled_ms: disabledMs, ...proofs } of known.admins) {
    const found = admin.get(id)
    if (found === null) continue
    if (disabledMs !== null && found.disabled_ms === null) kept.disabled.push(found.name)
    copy
      .query('UPDATE admins SET password_hash = ?, code_hash = ?, code_expires_ms = ?, disabled_ms = ? WHERE id = ?')
      .run(proofs.password_hash, proofs.code_hash, proofs.code_expires_ms, found.disabled_ms ?? disabledMs, id)
    copy.query('DELETE FROM admin_passkeys WHERE admin_id = ?').run(id)
  }
  const add = copy.query(
    `INSERT INTO admin_passkeys (${PASSKEY.join(', ')}) VALUES (${PASSKEY.map(() => '?').join(', ')}) ON CONFLICT DO NOTHING`,
  )
  for (const passkey of known.passkeys)
    if (admin.get(String(passkey.admin_id)) !== null) add.run(...PASSKEY.map((column) => passkey[column]))
  const tokens = copy.query<{ id: string; name: string }, []>(
    'SELECT id, name FROM admin_tokens WHERE revoked_ms IS NULL ORDER BY id',
  )
  for (const { id, name } of tokens.all()) {
    const revokedMs = known.tokens.get(id)
    if (revokedMs === undefined || revokedMs === null) continue
    copy.query('UPDATE admin_tokens SET revoked_ms = ? WHERE id = ?').run(revokedMs, id)
    kept.tokens.push(name)
  }
  return kept
}

/** Whoever has the cookie of one that has ended since would be signed in again. */
export function endSessions(copy: Database): void {
  copy.run('DELETE FROM admin_sessions')
}
