/**
 * What a restore must not bring back: keys that the database which it replaces had revoked, and secrets that it had ended or
 * no longer knows of a key that it has. Reads and writes tables that every version has had.
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
