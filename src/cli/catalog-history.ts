/**
 * `tollgate catalog history | revert`: what the catalogue was, and back to it. Works beside a running server, which uses a
 * reverted catalog when the command returns.
 */
import { listVersions, planRevert, revertCatalog, showVersion } from '../catalog/history.ts'
import { toShownVersionDocument, toVersionDocument } from '../documents/catalog.ts'
import { readActorNames } from '../keys/audit-log.ts'
import type { CatalogVersion } from '../store/catalog-rows.ts'
import { createIdentityStore } from '../store/sqlite/identity-store.ts'
import { toCountText, toWriteLines } from './catalog-changes.ts'
import { usageError } from './command-error.ts'
import {
  type Context,
  printJson,
  toDescribedTable,
  toShort,
  toShortSource,
  toTable,
  toTime,
  toWholeSource,
  withStore,
} from './io.ts'

/** @param number the version to show; all of them are listed without one. */
export async function history(number: string | undefined, io: Context): Promise<void> {
  if (number !== undefined) return show(toNumber(number), io)
  const { versions, names } = await withStore(io, { readonly: true }, async (store, sqlite) => ({
    versions: await listVersions(store),
    names: await readActorNames(createIdentityStore(sqlite)),
  }))
  if (io.json) return printJson(io, { versions: versions.map((version) => toVersionDocument(version, names)) })
  if (versions.length === 0) return io.stderr('Nothing was applied yet.\n')
  io.stdout(
    toTable(
      HEADINGS,
      versions.map((version) => toCells(version, names)),
      io.paint,
    ),
  )
}

const HEADINGS = ['N', 'WHEN (UTC)', 'WHO', 'WHAT', 'ROWS', 'SOURCE']

const toCells = (version: CatalogVersion, names: ReadonlyMap<string, string>) => [
  String(version.number),
  toTime(version.atMs),
  toShort(names.get(version.actor) ?? version.actor),
  version.action.replace(/^catalog\./, ''),
  // As a plan marks them. Another owner is something that a row has otherwise.
  `+${version.created} ~${version.updated + version.adopted} -${version.deleted}`,
  toShortSource(version.subject),
]

async function show(number: number, io: Context): Promise<void> {
  const { shown, names } = await withStore(io, { readonly: true }, async (store, sqlite) => ({
    shown: await showVersion(store, number),
    names: await readActorNames(createIdentityStore(sqlite)),
  }))
  if (io.json) return printJson(io, toShownVersionDocument(shown, names))
  const { version, told } = shown
  const cells = toCells(version, names)
  io.stdout(toDescribedTable(HEADINGS, [cells], [[toWholeSource(version.subject)]], io.paint))
  io.stdout(
    told ? toWriteLines(told, io.paint) : 'What it changed is not known: the version before it is not kept any more.\n',
  )
}

export async function revert(text: string, { plan = false }: { plan?: boolean }, io: Context): Promise<void> {
  const number = toNumber(text)
  const done = await withStore(io, { readonly: plan }, (store) =>
    plan ? planRevert(store, number) : revertCatalog(store, number, { actor: 'cli', nowMs: io.nowMs() }),
  )
  if (io.json) return printJson(io, { reverted_to: number, planned: plan, ...done })
  io.stdout(toWriteLines(done, io.paint))
  if (done.changes.length + done.adoptions.length === 0)
    return io.stdout(`The catalogue is what it was after version ${number}: nothing to change.\n`)
  const what = toCountText(done)
  if (plan) return io.stdout(`To go back to version ${number} would make: ${what}.\n`)
  io.stdout(`The catalogue is what it was after version ${number}: ${what}. This is version ${done.version}.\n`)
  io.stderr(
    'note: the catalogue file says what it said, and wins again once it is applied: by you, by a reload, or by a server that starts after the file, or its own version, has changed. Write this one down with: tollgate catalog export FILE\n',
  )
}

function toNumber(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw usageError(`'${text}' is no version: see their numbers with: tollgate catalog history`)
  return Number(text)
}
