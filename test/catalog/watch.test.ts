/** A watched file is applied once it is stable, however it was replaced, and a problem is reported once. Tests poll manually. */
import { beforeEach, expect, test } from 'bun:test'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type CatalogWatch, watchCatalog } from '../../src/catalog/source.ts'
import { ServiceError } from '../../src/domain/service-error.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'

/** Callbacks, in order. */
let heard: string[]
/** Errors of applying a text. */
let refuse: (text: string) => Error | null
const folder = forEachTest(createTestFolder)
beforeEach(() => {
  heard = []
  refuse = () => null
})

const path = (name: string) => join(folder.path, name)
const write = (name: string, text: string) => writeFileSync(path(name), text)

/** A catalog and its model files, as read by `apply`. */
function textOf(file: string | null): string {
  const models = existsSync(path('models.d')) ? readdirSync(path('models.d')).toSorted() : []
  const texts = models.map((name) => readFileSync(path(join('models.d', name)), 'utf8'))
  return [...(file === null ? [] : [readFileSync(file, 'utf8')]), ...texts].join(' + ')
}

function watch(...names: string[]): Promise<CatalogWatch> {
  let applied = ''
  return watchCatalog({
    places: names.map(path),
    modelsFolder: path('models.d'),
    async apply(file) {
      const text = textOf(file)
      const error = refuse(text)
      if (error) throw error
      const isChanged = text !== applied
      applied = text
      return isChanged
    },
    onApplied: (file) => heard.push(`applied ${textOf(file)}`),
    onTrouble: (error) => heard.push(`${error}`),
    onGone: (file) => heard.push(`gone ${file.slice(folder.path.length + 1)}`),
  })
}

async function look({ look }: CatalogWatch, times: number): Promise<string[]> {
  for (let time = 0; time < times; time++) await look()
  return heard.splice(0)
}

test("the initial file isn't applied again, and a change is applied once it is stable", async () => {
  write('c', 'one')
  const watching = await watch('c')
  expect(await look(watching, 3)).toEqual([])
  write('c', 'two, half')
  expect(await look(watching, 1)).toEqual([])
  appendFileSync(path('c'), ' and whole')
  expect(await look(watching, 1)).toEqual([])
  expect(await look(watching, 3)).toEqual(['applied two, half and whole'])
})

test('a replaced file and a changed link are changes', async () => {
  for (const version of ['1', '2']) {
    mkdirSync(path(version))
    write(`${version}/c`, `v${version}`)
  }
  symlinkSync('1', path('data'))
  symlinkSync('data/c', path('c'))
  const watching = await watch('c')
  symlinkSync('2', path('next'))
  renameSync(path('next'), path('data'))
  expect(await look(watching, 2)).toEqual(['applied v2'])
  write('3', 'v3')
  renameSync(path('3'), path('c'))
  expect(await look(watching, 2)).toEqual(['applied v3'])
})

test('an invalid file is reported once and retried when it changes; its repair is reported, too', async () => {
  write('c', 'one')
  const watching = await watch('c')
  refuse = (text) => (text === 'wrong' ? new ServiceError({ kind: 'catalog_missing' }, 'line 3') : null)
  write('c', 'wrong')
  expect(await look(watching, 5)).toEqual(['ServiceError: line 3'])
  write('c', 'one more')
  expect(await look(watching, 3)).toEqual(['applied one more'])
})

test('other failures are retried at each poll, and reported once', async () => {
  write('c', 'one')
  const watching = await watch('c')
  let tries = 0
  refuse = () => (++tries < 4 ? new Error('busy') : null)
  write('c', 'two')
  expect(await look(watching, 3)).toEqual(['Error: busy'])
  expect(await look(watching, 3)).toEqual(['applied two'])
  expect(tries).toBe(4)
})

test('if the file disappears, nothing changes and no other file replaces it', async () => {
  write('first', 'one')
  write('second', 'another')
  const watching = await watch('first', 'second')
  rmSync(path('first'))
  expect(await look(watching, 3)).toEqual(['gone first'])
  write('first', 'back')
  expect(await look(watching, 3)).toEqual(['applied back'])
})

test('without a file, the first one that appears is applied, and later one with precedence', async () => {
  const watching = await watch('first', 'second')
  expect(await look(watching, 2)).toEqual([])
  write('second', 'b')
  expect(await look(watching, 2)).toEqual(['applied b'])
  write('first', 'a')
  expect(await look(watching, 2)).toEqual(['applied a'])
})

test('added, changed, and removed model files are changes, with and without a catalog', async () => {
  for (const catalog of ['c', null]) {
    if (catalog !== null) write(catalog, 'one')
    const said = (...models: string[]) => [`applied ${[...(catalog === null ? [] : ['one']), ...models].join(' + ')}`]
    const watching = await watch('c')
    mkdirSync(path('models.d'))
    expect(await look(watching, 3)).toEqual([])
    write('models.d/a.yaml', 'a, half')
    expect(await look(watching, 1)).toEqual([])
    appendFileSync(path('models.d/a.yaml'), ' and whole')
    expect(await look(watching, 3)).toEqual(said('a, half and whole'))
    write('models.d/b.yaml', 'b')
    expect(await look(watching, 3)).toEqual(said('a, half and whole', 'b'))
    rmSync(path('models.d/a.yaml'))
    expect(await look(watching, 3)).toEqual(said('b'))
    rmSync(path('models.d'), { recursive: true })
    expect(await look(watching, 3)).toEqual(said())
    rmSync(path('c'), { force: true })
  }
})

test('without the catalog file, changes of model files wait until it is back', async () => {
  write('c', 'one')
  const watching = await watch('c')
  rmSync(path('c'))
  mkdirSync(path('models.d'))
  write('models.d/a.yaml', 'a')
  expect(await look(watching, 3)).toEqual(['gone c'])
  write('c', 'one')
  expect(await look(watching, 3)).toEqual(['applied one + a'])
})
