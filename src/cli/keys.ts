/**
 * `tollgate keys create | list | show | edit | rotate | revoke`. Works beside a running server, which uses a change by the
 * time the command returns. A secret is printed once, by `create` or `rotate`, alone on its line.
 */
import type { Database } from 'bun:sqlite'
import { toKeyDocument } from '../documents/key.ts'
import { toMs } from '../domain/time.ts'
import { readNames } from '../identity/admins.ts'
import { editKey } from '../keys/edit.ts'
import { DEFAULT_OVERLAP_MS, OVERLAP_MS, rotateKey } from '../keys/rotate.ts'
import { createKey, listAllKeys, listKeys, revokeKey, showKey } from '../keys/service.ts'
import { toFirstStanding } from '../keys/standing.ts'
import { createIdentityStore } from '../store/sqlite/identity-store.ts'
import { createStandings, toBudgetWarning } from './budget.ts'
import { usageError } from './command-error.ts'
import { type Context, printJson, toPrintable, toTime, withStore } from './io.ts'
import { findUnmatchedAfter, findUnmatchedNow, toPatterns, warnOf } from './key-models.ts'
import { toKeyChanges } from './key-options.ts'
import { toKeyTable } from './key-table.ts'
import { toChangeText, toKeyName, toKeyText } from './key-text.ts'
import type { Flags } from './shared-options.ts'
import { toName } from './values.ts'

/** Of a key that a command makes. */
const NOBODY = new Map<string, string>()

/** Who may have made a key for themselves, by their ids. */
const ownersOf = (sqlite: Database) => readNames(createIdentityStore(sqlite))

export async function create(flags: Flags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const name = toName(flags.name?.at(-1), 'say what the key is for, such as --name dev')
  const options = { ...toKeyChanges(flags, { canBeNone: false }, nowMs), name }
  await withStore(io, {}, async (store) => {
    const { key, secret } = await createKey(store, options, { actor: 'cli', nowMs })
    const unmatched = await findUnmatchedNow(key, store, io)
    // It is too new to have spent anything.
    const { id, name: _, ...rest } = toKeyDocument(key, toFirstStanding(key, nowMs), NOBODY)
    if (io.json) return printJson(io, { id, name, key: secret, ...rest, ...toPatterns(unmatched) })
    warnOf(unmatched, io)
    io.stderr(`${toKeyName(key)}. Keep it now; it is not shown again:\n`)
    io.stdout(`${secret}\n`)
  })
}

/** @param all also those that let nobody in any more, or never did: playgrounds are metered by them. */
export async function list({ all = false }: { all?: boolean }, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const { shown, hidden, names } = await withStore(io, { readonly: true }, async (store, sqlite) => {
    const standingOf = await createStandings(sqlite, 'key', io)
    const keys = all ? await listAllKeys(store, nowMs) : await listKeys(store, nowMs)
    const wanted = keys.filter(({ status }) => all || status === 'active')
    const shown = wanted.map((key) => ({ key, standing: standingOf(key) }))
    return { shown, hidden: keys.length - wanted.length, names: await ownersOf(sqlite) }
  })
  if (io.json) return printJson(io, { keys: shown.map(({ key, standing }) => toKeyDocument(key, standing, names)) })
  if (shown.length > 0) io.stdout(toKeyTable(shown, names, nowMs, io.paint))
  if (hidden > 0) io.stderr(`${hidden} revoked or expired; with --all they are listed, too.\n`)
  else if (shown.length === 0) io.stderr('There are no keys yet. Make one with: tollgate keys create --name NAME\n')
  for (const { key, standing } of shown)
    if (key.status === 'active') io.stderr(toBudgetWarning(`key ${toPrintable(key.name)}`, standing))
}

export async function show(which: string, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  await withStore(io, { readonly: true }, async (store, sqlite) => {
    const key = await showKey(store, which, nowMs)
    const standing = (await createStandings(sqlite, 'key', io, key.id))(key)
    const names = await ownersOf(sqlite)
    if (io.json) return printJson(io, toKeyDocument(key, standing, names))
    io.stdout(toKeyText(key, standing, names, nowMs))
  })
}

export async function edit(which: string, flags: Flags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const changes = toKeyChanges(flags, { canBeNone: true }, nowMs)
  if (Object.keys(changes).length === 0) throw usageError('Say what to change, such as --rpm 60 or --budget none.')
  await withStore(io, {}, async (store, sqlite) => {
    const { before, key, difference } = await editKey(store, which, changes, { actor: 'cli', nowMs })
    const changed = Object.keys(difference?.after ?? {})
    const unmatched = await findUnmatchedAfter(changed, key, store, io)
    if (io.json) {
      const standing = (await createStandings(sqlite, 'key', io, key.id))(key)
      return printJson(io, {
        ...toKeyDocument(key, standing, await ownersOf(sqlite)),
        changed,
        ...toPatterns(unmatched),
      })
    }
    warnOf(unmatched, io)
    io.stdout(difference === null ? `${toKeyName(key)} is like that already.\n` : toChangeText(before, key))
  })
}

export async function rotate(which: string, { overlap }: { overlap?: string }, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const overlapMs = overlap === undefined ? DEFAULT_OVERLAP_MS : toMs(overlap.trim(), OVERLAP_MS)
  if (overlapMs === null) throw usageError(`--overlap '${overlap}' is no span: write 24h, 7d or 0; at most 365d.`)
  await withStore(io, {}, async (store, sqlite) => {
    // First: once there is a secret, nothing may come between it and whoever asked for it.
    const { id } = await showKey(store, which, nowMs)
    const standingOf = io.json ? await createStandings(sqlite, 'key', io, id) : null
    const { key, secret } = await rotateKey(store, id, overlapMs, { actor: 'cli', nowMs })
    if (standingOf !== null) {
      const { id, name, ...rest } = toKeyDocument(key, standingOf(key), await ownersOf(sqlite))
      return printJson(io, { id, name, key: secret, ...rest })
    }
    const end = overlapMs === 0 ? 'has ended' : `ends ${toTime(nowMs + overlapMs)} UTC at the latest`
    io.stderr(`${toKeyName(key)} has a new secret; the one before ${end}.\n`)
    if (overlapMs > 0) io.stderr(LEAKED)
    io.stderr('Keep this one now; it is not shown again:\n')
    io.stdout(`${secret}\n`)
  })
}

/** Whoever rotates a key that somebody has seen may not know that it works on. */
const LEAKED = 'If that one has leaked, rotate again with --overlap 0: both end at once, and a third is printed.\n'

export async function revoke(which: string, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  await withStore(io, {}, async (store, sqlite) => {
    const { key, alreadyRevoked } = await revokeKey(store, which, { actor: 'cli', nowMs })
    if (io.json) {
      const standing = (await createStandings(sqlite, 'key', io, key.id))(key)
      return printJson(io, { ...toKeyDocument(key, standing, await ownersOf(sqlite)), already_revoked: alreadyRevoked })
    }
    io.stdout(`${toKeyName(key)} ${alreadyRevoked ? 'was revoked already' : 'is revoked'}.\n`)
  })
}
