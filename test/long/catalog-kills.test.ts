/** Applies and reverts killed at any moment: each is complete, with version and audit row, or has changed nothing. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { mergeLayers, NAMES } from '../../src/store/catalog-layers.ts'
import type { CatalogRows } from '../../src/store/catalog-rows.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { BINARY, createWorkplace, type RunningBinary, type Workplace } from '../support/binary.ts'
import { createPicker } from '../support/random.ts'

/** For commands that write directly; a quarter as many go through a server, which survives. */
const ROUNDS = Number(process.env.CRASH_ROUNDS ?? 40)
const SERVED_ROUNDS = Math.ceil(ROUNDS / 4)
const SEED = Number(process.env.CRASH_SEED ?? 7)
const MODELS = 300

let place: Workplace
let data: string
let server: RunningBinary
beforeAll(async () => {
  place = createWorkplace()
  data = join(place.folder, 'data')
  for (const version of ['a', 'b']) await place.write(`${version}.yaml`, toText(version))
  server = await place.serve(['--catalog', join(place.folder, 'a.yaml')])
})
afterAll(() => place.close())

/** Every model differs between versions, and each version has some of its own. */
function toText(version: string): string {
  const facts = 'context_length: 8, max_output_length: 1, input_modalities: [text], output_modalities: [text]'
  const models = Array.from({ length: MODELS }, (_, index) => {
    const name = index % 3 === 0 ? `v/${version}${index}` : `v/m${index}`
    return `  ${name}: { name: ${version}, ${facts}, supported_features: [], routes: [{ upstream: u, model: m }] }\n`
  })
  return `version: 1\nupstreams: { u: { dialect: demo, local: true } }\nmodels:\n${models.join('')}`
}

async function look() {
  const sqlite = openDatabase(databasePath(data), { busyMs: 5_000, readonly: true })
  const store = createConfigStore(sqlite)
  // One snapshot: a server continues what a killed command requested.
  sqlite.run('BEGIN')
  const [rows, versions, audit] = await Promise.all([store.readCatalog(), store.readVersions(), store.readAudit()])
  const newest = await store.readVersion(versions.at(-1)?.number ?? 0)
  sqlite.close()
  const made = audit.filter(({ action }) => action.startsWith('catalog.')).reverse()
  return { rows, versions, newest, numbers: made.map(({ detail }) => detail.version) }
}

/** By name: changed rows keep their place in the database. */
function inOrder({ upstreams, models, routes, aliases }: CatalogRows): CatalogRows {
  const by = <Row>(rows: Row[], nameOf: (row: Row) => string) =>
    rows.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1))
  return {
    upstreams: by(upstreams, NAMES.upstreams),
    models: by(models, NAMES.models),
    routes: by(routes, NAMES.routes),
    aliases: by(aliases, NAMES.aliases),
  }
}

async function killCommands(rounds: number): Promise<void> {
  const pick = createPicker(SEED)
  const first = await look()
  let tookMs = 0
  for (let round = 0; round < rounds; round++) {
    const before = await look()
    const other = before.rows.models[1]?.name === 'a' ? 'b' : 'a'
    const last = before.versions.length
    const words =
      round === 0 || pick(2) > 0
        ? ['apply', join(place.folder, `${other}.yaml`), '--prune']
        : ['revert', String(1 + pick(last))]
    const child = Bun.spawn([BINARY, 'catalog', ...words, '--data', data], { stdout: 'ignore', stderr: 'ignore' })
    const begunMs = performance.now()
    // The first apply shows how long one takes; some others end before the kill.
    const timer = setTimeout(() => child.kill('SIGKILL'), round === 0 ? 60_000 : pick(1.5 * tookMs))
    await child.exited
    clearTimeout(timer)
    if (round === 0) tookMs = performance.now() - begunMs
    const { rows, versions, newest, numbers } = await look()
    expect(newest && inOrder(mergeLayers(newest.layers))).toEqual(inOrder(rows))
    expect(new Set(rows.models.map(({ name }) => name)).size).toBe(1)
    expect([rows.models.length, rows.routes.length]).toEqual([MODELS, MODELS])
    expect(numbers).toEqual(versions.map(({ number }) => number))
  }
  const done = (await look()).versions.length - first.versions.length
  // Otherwise the test proves nothing.
  expect([done > 1, done < rounds]).toEqual([true, true])
}

test(`${SERVED_ROUNDS} kills next to a server leave a whole catalog, its versions, and its audit rows`, async () => {
  await killCommands(SERVED_ROUNDS)
}, 600_000)

test(`${ROUNDS} kills without a server do, too`, async () => {
  server.signal('SIGKILL')
  await server.exited
  await killCommands(ROUNDS)
}, 600_000)
