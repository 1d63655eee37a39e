/** A watched file counts once it stands still, however it was replaced, and what is wrong with it is told once. Looks are made by hand. */
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

/** What was heard, in order. */
let heard: string[]
/** What keeps a text from being applied. */
let refuse: (text: string) => Error | null
const folder = forEachTest(createTestFolder)
beforeEach(() => {
  heard = []
  refuse = () => null
})

const path = (name: string) => join(folder.path, name)
const write = (name: string, text: string) => writeFileSync(path(name), text)

/** A catalogue and the files of models with it, as whoever applies them reads them. */
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

test('what was there at first is not applied again, a change once it has stood still', async () => {
  write('c', 'one')
  const watching = await watch('c')
  expect(await look(watching, 3)).toEqual([])
  write('c', 'two, half')
  expect(await look(watching, 1)).toEqual([])
  appendFileSync(path('c'), ' and whole')
  expect(await look(watching, 1)).toEqual([])
  expect(await look(watching, 3)).toEqual(['applied two, half and whole'])
})

test('a file that another one takes the place of, and a link that leads elsewhere, are changes', async () => {
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

test('a file that is wrong is told of once and tried when it changes; that it is right again is told, too', async () => {
  write('c', 'one')
  const watching = await watch('c')
  refuse = (text) => (text === 'wrong' ? new ServiceError({ kind: 'catalog_missing' }, 'line 3') : null)
  write('c', 'wrong')
  expect(await look(watching, 5)).toEqual(['ServiceError: line 3'])
  write('c', 'one more')
  expect(await look(watching, 3)).toEqual(['applied one more'])
})

test('what fails for another reason is tried at each look, and told of once', async () => {
  write('c', 'one')
  const watching = await watch('c')
  let tries = 0
  refuse = () => (++tries < 4 ? new Error('busy') : null)
  write('c', 'two')
  expect(await look(watching, 3)).toEqual(['Error: busy'])
  expect(await look(watching, 3)).toEqual(['applied two'])
  expect(tries).toBe(4)
})

test('a file that is gone leaves things as they were, and no other stands in for it', async () => {
  write('first', 'one')
  write('second', 'another')
  const watching = await watch('first', 'second')
  rmSync(path('first'))
  expect(await look(watching, 3)).toEqual(['gone first'])
  write('first', 'back')
  expect(await look(watching, 3)).toEqual(['applied back'])
})

test('where there is none yet, the first that appears counts, and one in a better place after it', async () => {
  const watching = await watch('first', 'second')
  expect(await look(watching, 2)).toEqual([])
  write('second', 'b')
  expect(await look(watching, 2)).toEqual(['applied b'])
  write('first', 'a')
  expect(await look(watching, 2)).toEqual(['applied a'])
})

test('files of models that come, change and go are changes, with a catalogue and without one', async () => {
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

test('while the catalogue is gone, files of models that change are left until it is back', async () => {
  write('c', 'one')
  const watching = await watch('c')
  rmSync(path('c'))
  mkdirSync(path('models.d'))
  write('models.d/a.yaml', 'a')
  expect(await look(watching, 3)).toEqual(['gone c'])
  write('c', 'one')
  expect(await look(watching, 3)).toEqual(['applied one + a'])
})
