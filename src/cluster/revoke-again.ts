/** Repeats revocations of lost changes, so that a failover doesn't reinstate a key or token. */
import type { AuditAction } from '../domain/changes.ts'
import type { Lost } from '../store/config-replica.ts'
import type { ConfigStore } from '../store/config-store.ts'
import type { IdentityStore } from '../store/identity-store.ts'

export interface RevokeDeps {
  store: Pick<ConfigStore, 'changeKeys'>
  identity: Pick<IdentityStore, 'changeIdentity'>
}

export async function revokeAgain(
  { store, identity }: RevokeDeps,
  lost: Pick<Lost, 'keys' | 'tokens'>,
  nowMs: number,
): Promise<void> {
  const by = { actor: 'server', nowMs }
  const toChange = <Row extends { id: string; name: string; revokedMs: number | null }, Write>(
    action: AuditAction,
    row: Row | undefined,
    toWrite: (row: Row) => Write,
  ) => {
    if (!row || row.revokedMs !== null) return { value: null, change: null }
    const detail = { name: row.name, before: { revoked_ms: null }, after: { revoked_ms: nowMs } }
    const write = toWrite({ ...row, revokedMs: nowMs })
    return { value: null, change: { action, subject: row.id, detail, write } }
  }
  for (const id of lost.keys)
    await store.changeKeys(by, ({ keys }) =>
      toChange(
        'keys.revoke',
        keys.find((key) => key.id === id),
        (key) => ({ keys: [key] }),
      ),
    )
  for (const id of lost.tokens)
    await identity.changeIdentity(by, ({ tokens }) =>
      toChange(
        'tokens.revoke',
        tokens.find((token) => token.id === id),
        (token) => ({ tokens: [token] }),
      ),
    )
}
