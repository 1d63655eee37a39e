/** `tollgate models remove`: takes away what `models add` has made, and leaves the model's own file where it is. */
import { existsSync } from 'node:fs'
import { deleteServedModel } from '../catalog/delete-model.ts'
import type { Edited } from '../catalog/edit.ts'
import { type DeclaredThere, readModelFiles, removeModelFile } from '../catalog/model-files.ts'
import { loadSource } from '../catalog/source.ts'
import { toEditDocument } from '../documents/catalog.ts'
import { ServiceError } from '../domain/service-error.ts'
import { databasePath } from '../store/sqlite/open.ts'
import { toWriteLines } from './catalog-changes.ts'
import { CommandError } from './command-error.ts'
import { type Context, printJson, toPrintable, withStore } from './io.ts'

/** A running server ends its answers, and then its process, within moments. */
export async function remove(slug: string, { plan = false }: { plan?: boolean }, io: Context): Promise<void> {
  const { modelFiles } = await loadSource({ dataFolder: io.dataFolder, cwd: io.cwd })
  const found = (await readModelFiles(modelFiles)).find(({ models }) => models.includes(slug)) ?? null
  if (found !== null) requireAlone(found)
  const edited = await deleteRows(slug, found, plan, io)
  // Else the next start would bring it back.
  if (found !== null && !plan) removeModelFile(found.file)
  const path = found?.file.path ?? null
  if (found === null && !plan)
    io.stderr(
      'note: no file of models.d declares it. Where a catalogue does, the next start of a server brings it back.\n',
    )
  if (io.json) return printJson(io, { planned: plan, model: slug, path, ...(edited && toEditDocument(edited)) })
  if (edited) io.stdout(toWriteLines(edited, io.paint))
  const files = path === null ? '' : ` ${path} ${plan ? 'would be' : 'is'} deleted; the model's own file stays.`
  io.stdout(plan ? `Nothing is changed yet.${files}\n` : `${toPrintable(slug)} is gone.${files}\n`)
}

function requireAlone({ file, models }: DeclaredThere): void {
  if (models.length > 1)
    throw new CommandError('declared_elsewhere', `${file.path} declares other models, too: take it away there by hand.`)
}

/** Null where no server was ever started on the file. */
async function deleteRows(
  slug: string,
  found: DeclaredThere | null,
  plan: boolean,
  io: Context,
): Promise<Edited | null> {
  if (found !== null && !existsSync(databasePath(io.dataFolder))) return null
  const by = { actor: 'cli', nowMs: io.nowMs(), isPlan: plan }
  try {
    return await withStore(io, { readonly: plan }, (store) => deleteServedModel(store, slug, by))
  } catch (error) {
    const isOnlyThere = found !== null && error instanceof ServiceError && error.failure.kind === 'model_not_found'
    if (isOnlyThere) return null
    throw error
  }
}
