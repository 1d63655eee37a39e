/** `tollgate upstreams edit | remove`. Both work beside a running server, which uses a change when the command returns. */
import { addModels } from '../catalog/add-upstream.ts'
import type { Edited } from '../catalog/edit.ts'
import { deleteUpstream, editUpstream, type UpstreamChanges } from '../catalog/edit-upstream.ts'
import { findUpstream } from '../catalog/find.ts'
import { findMore } from '../catalog/found-models.ts'
import { toEditDocument } from '../documents/catalog.ts'
import { toDefined } from '../domain/changes.ts'
import { listModels } from '../server/model-lists.ts'
import { toUpstream } from '../store/upstream.ts'
import { createVault, openStored } from '../store/vault.ts'
import { toCountText, toWriteLines } from './catalog-changes.ts'
import { CommandError, usageError } from './command-error.ts'
import { type CredentialFlags, readCredential } from './credential-option.ts'
import { requireYes } from './decide.ts'
import { type Context, printJson, withStore } from './io.ts'
import { warnOfServer } from './live-upstream.ts'
import { requireSecret } from './require-secret.ts'
import { tellFound } from './upstreams-add.ts'
import { toCount } from './values.ts'

export interface EditFlags extends CredentialFlags {
  baseUrl?: string
  models?: string[]
  enable?: boolean
  disable?: boolean
  rpm?: string
  tpm?: string
  concurrency?: string
  plan?: boolean
  yes?: boolean
}

export async function edit(id: string, flags: EditFlags, io: Context): Promise<void> {
  const plan = flags.plan === true
  if (plan && flags.yes) throw usageError('--plan changes nothing, and --yes does: say one of them.')
  // Before anybody types a key.
  await withStore(io, { readonly: true }, async (store) => void findUpstream(await store.readCatalog(), id))
  const credential = await readCredential(flags, id, io)
  const changes: UpstreamChanges = toDefined({
    baseUrl: flags.baseUrl,
    enabled: toEnabled(flags),
    limits: toLimits(flags),
    ...(credential === null ? { apiKey: null } : credential && toSaid(credential)),
  })
  const { models: patterns } = flags
  const isChanged = Object.keys(changes).length > 0
  if (!isChanged && patterns === undefined)
    throw usageError('Nothing to change is named. See what can be: tollgate upstreams edit --help')
  if (isChanged && patterns !== undefined)
    throw usageError('--models asks for more models, and is said alone: change the rest first.')
  if (patterns !== undefined) return addMore(id, patterns, flags, io)
  if (credential && 'credential' in credential) await requireSecret(io)
  const by = { actor: 'cli', nowMs: io.nowMs(), isPlan: plan }
  const edited = await withStore(io, { readonly: plan }, (store) =>
    editUpstream({ store, vault: createVault(io.dataFolder, io.environment), lookUp: null }, id, changes, by),
  )
  tell(id, edited, plan, io)
  if (!plan) await warnOfServer(id, io)
}

export async function remove(id: string, { plan = false }: { plan?: boolean }, io: Context): Promise<void> {
  const by = { actor: 'cli', nowMs: io.nowMs(), isPlan: plan }
  const removed = await withStore(io, { readonly: plan }, (store) => deleteUpstream(store, id, by))
  tell(id, removed, plan, io)
}

function tell(id: string, edited: Edited, plan: boolean, io: Context): void {
  if (io.json) printJson(io, { planned: plan, upstream: id, ...toEditDocument(edited) })
  else io.stdout(`${toWriteLines(edited, io.paint)}${toClosing(id, edited, plan)}\n`)
}

function toClosing(id: string, edited: Edited, plan: boolean): string {
  const { changes, adoptions, version } = edited
  if (changes.length + adoptions.length === 0) return `${id}: nothing to change.`
  if (plan) return `That would make: ${toCountText(edited)}. Nothing is changed yet.`
  const back = version !== null && version > 1 ? ` Back with: tollgate catalog revert ${version - 1}` : ''
  return `${toCountText(edited)}.${back}`
}

const toSaid = (credential: { variable: string } | { credential: string }): UpstreamChanges =>
  'variable' in credential ? credential : { apiKey: credential.credential }

function toEnabled({ enable, disable }: EditFlags): boolean | undefined {
  if (enable && disable) throw usageError('Say --enable or --disable.')
  return enable ? true : disable ? false : undefined
}

function toLimits({ rpm, tpm, concurrency }: EditFlags): UpstreamChanges['limits'] {
  const given = Object.entries({ rpm, tpm, concurrency }).filter(([, text]) => text !== undefined)
  if (given.length === 0) return undefined
  return Object.fromEntries(
    given.map(([name, text = '']) => [name, text === 'none' ? null : toCount(`--${name}`, text)]),
  )
}

/** Asks the provider for its list again, and adds what fits and is not there. */
async function addMore(id: string, patterns: string[], { plan = false, yes }: EditFlags, io: Context): Promise<void> {
  const { row, asked } = await withStore(io, { readonly: true }, async (store) => {
    const row = findUpstream(await store.readCatalog(), id)
    const opened = await openStored(store, io.dataFolder, io.environment)
    return { row, asked: toUpstream(row, io.environment, 'here', opened.get(id)) }
  })
  if (asked.notReady !== null) throw new CommandError('no_credential', `${id} cannot be asked: ${asked.notReady}.`)
  const found = await findMore(row, { patterns, ask: () => listModels(asked) })
  const by = { actor: 'cli', nowMs: io.nowMs() }
  const planned = await withStore(io, { readonly: true }, (store) =>
    addModels(store, id, found.models, { ...by, isPlan: true }),
  )
  if (!io.json) tellFound(planned, found, io)
  if (plan) return tell(id, planned, plan, io)
  // Requests for models that others serve would go there, too.
  if (planned.further.length > 0 && !yes) await requireYes('Add these routes?', io)
  tell(id, await withStore(io, {}, (store) => addModels(store, id, found.models, by)), plan, io)
}
