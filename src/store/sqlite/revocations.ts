/**
 * Revocations that a restore must not undo: revoked keys and tokens, ended secrets and sessions, disabled users, and replaced passwords, codes, and passkeys.
 * Uses only tables and columns of every version.
 */
import { Database } from 'bun:sqlite'
import { FINAL_STATES } from '../../domain/batches.ts'
import type { KeptRevocations, KnownAdmin, KnownKeys, KnownPeople, LedgerContent, Revocations } from '../store.ts'
import { countRequests, readNewestMs } from './ledger-reader.ts'

/** Throws SQLite's error. */
export function readRevocations(path: string, busyMs: number): Revocations {
  using sqlite = new Database(path, { readonly: true })
  sqlite.run(`PRAGMA busy_timeout = ${busyMs}`)
  return { held: readHeld(sqlite), keys: readKeys(sqlite), people: readPeople(sqlite) }
}

const readHeld = (sqlite: Database): LedgerContent => ({
  requests: countRequests(sqlite),
  newestMs: readNewestMs(sqlite),
})

function readKeys(sqlite: Database): KnownKeys {
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

export const keepRevocations = (copy: Database, { keys, people }: Revocations, nowMs: number): KeptRevocations => ({
  ...keepKeysOut(copy, keys, nowMs),
  people: keepPeopleOut(copy, people),
})

function keepKeysOut(copy: Database, known: KnownKeys, nowMs: number): Omit<KeptRevocations, 'people'> {
  const revoke = copy.query('UPDATE keys SET revoked_ms = ? WHERE id = ?')
  const end = copy.query('UPDATE key_secrets SET expires_ms = ? WHERE hash = ?')
  const keys = copy
    .query<{ id: string; name: string; createdMs: number }, []>(
      'SELECT id, name, created_ms AS createdMs FROM keys WHERE revoked_ms IS NULL ORDER BY id',
    )
    .all()
  // For later restores.
  if (known.keysFromMs > 0)
    copy
      .query(
        `INSERT INTO settings (key, value, updated_ms) VALUES ('keys_from', ?, ?) ON CONFLICT (key) DO UPDATE
         SET value = MAX(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))`,
      )
      .run(String(known.keysFromMs), nowMs)
  const kept: Omit<KeptRevocations, 'people'> = { revoked: [], secretsEnded: 0, withoutSecret: [] }
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

const PASSKEY = [
  ...['id', 'admin_id', 'name', 'credential_id', 'public_key', 'counter', 'transports', 'rp_id', 'created_ms'],
  'used_ms',
]

const has = (sqlite: Database, table: string): boolean =>
  sqlite.query("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?").get(table) !== null

export function forgetSessions(copy: Database): void {
  if (has(copy, 'admin_sessions')) copy.run('DELETE FROM admin_sessions')
}

/** Batches may have ended since the copy, or run at an upstream. Their requests would be sent and charged again. */
export function failBatches(copy: Database, nowMs: number): void {
  if (!has(copy, 'batches')) return
  const message = 'The batch was in progress when the backup was made, which has been restored since.'
  const problems = JSON.stringify([{ code: 'restored', message, param: null, line: null }])
  copy.run(
    `UPDATE batches SET state = 'failed',
       detail = json_set(detail, '$.at.failed', ?, '$.remote', NULL, '$.problems', json(?))
     WHERE state NOT IN (${FINAL_STATES.map(() => '?').join(', ')})`,
    [nowMs, problems, ...FINAL_STATES],
  )
}

function readPeople(sqlite: Database): KnownPeople {
  const all = <Row>(table: string, columns: readonly string[]) =>
    has(sqlite, table) ? sqlite.query<Row, []>(`SELECT ${columns.join(', ')} FROM ${table}`).all() : []
  const tokens = all<{ id: string; revoked_ms: number | null }>('admin_tokens', ['id', 'revoked_ms'])
  return {
    admins: all<KnownAdmin>('admins', ['id', 'password_hash', 'code_hash', 'code_expires_ms', 'disabled_ms']),
    tokens: new Map(tokens.map(({ id, revoked_ms: ms }) => [id, ms])),
    passkeys: all<KnownPeople['passkeys'][number]>('admin_passkeys', PASSKEY),
  }
}

function keepPeopleOut(copy: Database, known: KnownPeople): KeptRevocations['people'] {
  const kept: KeptRevocations['people'] = { disabled: [], tokens: [] }
  if (!has(copy, 'admins')) return kept
  const hasPasskeys = has(copy, 'admin_passkeys')
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
    if (hasPasskeys) copy.query('DELETE FROM admin_passkeys WHERE admin_id = ?').run(id)
  }
  if (hasPasskeys) addPasskeys(copy, known)
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

function addPasskeys(copy: Database, { passkeys }: KnownPeople): void {
  const admin = copy.query('SELECT 1 FROM admins WHERE id = ?')
  const add = copy.query(
    `INSERT INTO admin_passkeys (${PASSKEY.join(', ')}) VALUES (${PASSKEY.map(() => '?').join(', ')}) ON CONFLICT DO NOTHING`,
  )
  for (const passkey of passkeys)
    if (admin.get(String(passkey.admin_id)) !== null) add.run(...PASSKEY.map((column) => passkey[column] ?? null))
}
