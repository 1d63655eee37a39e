/**
 * `tollgate models list | show`: the models that may be asked for, from the database; whether they are ready, from the running
 * server, if one runs, else as far as the environment tells.
 */

import { closest } from '../catalog/entry.ts'
import type { ShownModel } from '../documents/model.ts'
import { count, matches } from '../domain/text.ts'
import { answerOf, withAdmin } from './admin-client.ts'
import { CommandError } from './command-error.ts'
import { noteServer } from './control-client.ts'
import { type Context, printJson, toDescribedTable, toPrintable, toTable } from './io.ts'
import { MODEL_HEADINGS, toModelCells, toModelText } from './model-text.ts'

/** @param all also those that are disabled, that no list of the API shows, and those of a wildcard that are not ready. */
export async function list(
  patterns: readonly string[],
  { all = false }: { all?: boolean },
  io: Context,
): Promise<void> {
  const { models, aliases, found } = await withAdmin(io, { readonly: true }, async ({ api, found }) => ({
    ...(await answerOf(api.models.get())),
    found,
  }))
  const isWanted = (name: string) => patterns.length === 0 || patterns.some((pattern) => matches(pattern, name))
  const isShown = (row: ShownModel) =>
    all || (row.enabled && row.listed && (!row.from_wildcard || row.is_ready !== false))
  const shown = models.filter((row) => isWanted(row.slug) && isShown(row))
  const others = aliases.filter((alias) => isWanted(alias.alias) && (all || alias.listed))
  if (io.json) return printJson(io, { models: shown, aliases: others })
  if (models.length > 0) noteServer(found, io, AS_FAR)
  const cells = [...shown.map(toModelCells), ...others.map(({ alias, model }) => [`${alias} = ${model}`])]
  if (cells.length > 0) io.stdout(toListText(cells, io))
  const hidden = models.filter((row) => isWanted(row.slug)).length - shown.length
  if (hidden > 0)
    io.stderr(`With --all: ${count(hidden, 'model')} more, disabled, not listed or of a wildcard and not ready.\n`)
  else if (cells.length > 0) return
  else if (models.length > 0) io.stderr('No model matches that. See all of them with: tollgate models list --all\n')
  else io.stderr('There are no models yet. Add those of a provider, or one from a file: upstreams add, models add\n')
}

const AS_FAR = 'What is ready is told as far as this environment knows.'

/** A line a model; what it can stands beneath it where a terminal is too narrow for that. */
function toListText(cells: string[][], io: Context): string {
  const wide = toTable(MODEL_HEADINGS, cells, io.paint)
  const fits = wide.split('\n').every((line) => Bun.stringWidth(line) <= io.columns())
  if (!io.isTerminal(1) || fits) return wide
  const can = MODEL_HEADINGS.length - 1
  return toDescribedTable(
    MODEL_HEADINGS.slice(0, can),
    cells.map((row) => row.slice(0, can)),
    cells.map((row) => [row[can] ?? '']),
    io.paint,
  )
}

export async function show(name: string, io: Context): Promise<void> {
  const shown = await withAdmin(io, { readonly: true }, async ({ api }) => {
    const { models, aliases } = await answerOf(api.models.get())
    const slug = aliases.find(({ alias }) => alias === name)?.model ?? name
    if (models.some((row) => row.slug === slug)) return answerOf(api.models({ slug: encodeURIComponent(slug) }).get())
    const hint = closest(name, [...models.map((row) => row.slug), ...aliases.map(({ alias }) => alias)])
    const message = `There is no model ${toPrintable(name)}${hint}. See them with: tollgate models list --all`
    throw new CommandError('unknown_model', message)
  })
  if (io.json) printJson(io, shown)
  else io.stdout(toModelText(shown, shown.aliases, shown.prices))
}
