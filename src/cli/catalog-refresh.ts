/** `tollgate catalog refresh`: newer public facts and prices, from where they are published or from a file. */
import { resolve } from 'node:path'
import { toNames } from '../catalog/discovery-notes.ts'
import { parseFacts, unusable } from '../catalog/facts-file.ts'
import { loadKnown } from '../catalog/known.ts'
import { type Refreshed, refreshFacts } from '../catalog/refresh.ts'
import { toEditDocument } from '../documents/catalog.ts'
import { fetchFacts, toFactsSource } from '../server/facts.ts'
import { toCountText, toLeftLines, toWriteLines } from './catalog-changes.ts'
import { usageError } from './command-error.ts'
import { type DecideFlags, requireDecided, requireYes } from './decide.ts'
import { type Context, printJson, toPrintable, withStore } from './io.ts'

/** Of a note. */
const MOST_NAMED = 20

export interface RefreshFlags extends DecideFlags {
  from?: string
}

export async function refresh(file: string | undefined, flags: RefreshFlags, io: Context): Promise<void> {
  requireDecided(flags, io)
  if (file !== undefined && flags.from !== undefined) throw usageError('Name a file, or an address with --from.')
  const source = file === undefined ? (flags.from ?? toFactsSource(io.environment)) : resolve(io.cwd, file)
  const text = file === undefined ? await fetchFacts(source) : await readFile(source)
  const { known, models, wrong } = parseFacts(text, source)
  if (wrong > 0)
    io.stderr(`note: ${wrong} of the ${models + wrong} models in it are not as they should be, and left out.\n`)
  const facts = { known, shipped: await loadKnown(), source }
  const by = { actor: 'cli', nowMs: io.nowMs() }
  const planned = await withStore(io, { readonly: true }, (store) =>
    refreshFacts(store, facts, { ...by, isPlan: true }),
  )
  const isIdle = planned.changes.length + planned.adoptions.length === 0
  if (io.json && (flags.plan || isIdle)) return printJson(io, toDocument(source, planned, true))
  if (!io.json) {
    io.stdout(toWriteLines(planned, io.paint) + toLeftLines(planned.left, 'discovered', io.paint))
    tellPrices(planned, io)
    if (isIdle) return io.stdout(`The catalogue says what ${toPrintable(source)} does: nothing to change.\n`)
    if (flags.plan) return io.stdout(`That would make: ${toCountText(planned)}. Nothing is changed yet.\n`)
  }
  if (!flags.yes) await requireYes('Change this?', io)
  const done = await withStore(io, {}, (store) => refreshFacts(store, facts, by))
  if (io.json) return printJson(io, toDocument(source, done, false))
  const back =
    done.version !== null && done.version > 1 ? `; back with: tollgate catalog revert ${done.version - 1}` : ''
  io.stdout(`${toCountText(done)}. It is version ${done.version} of the catalogue${back}\n`)
}

const toDocument = (source: string, { left, unpriced, free, ...edited }: Refreshed, planned: boolean) => ({
  ...{ source, planned },
  ...toEditDocument(edited),
  ...{ left, unpriced, free },
})

function tellPrices({ unpriced, free }: Refreshed, io: Context): void {
  if (free.length > 0)
    io.stderr(
      `note: by this list they cost nothing from now on, and no budget ends them: ${toNames(free.map(toPrintable), MOST_NAMED)}. Whoever knows better gives them prices in the dashboard.\n`,
    )
  if (unpriced.length > 0)
    io.stderr(
      `note: still unpriced, and so disabled: ${toNames(unpriced.map(toPrintable), MOST_NAMED)}. Give them prices in the dashboard.\n`,
    )
}

async function readFile(path: string): Promise<string> {
  try {
    return await Bun.file(path).text()
  } catch {
    throw unusable(`${path} cannot be read. Name the api.json of models.dev, or leave the name out to have it fetched.`)
  }
}
