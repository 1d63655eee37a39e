/**
 * What a restore must not bring back of those who sign in: sessions, whoever was disabled since, tokens that were revoked since, and
 * passwords, codes and passkeys that are others by now.
 */
import type { Database } from 'bun:sqlite'

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
