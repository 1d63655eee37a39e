/** The documentation stays true: links and anchors lead somewhere, commands and catalogs in it are valid, and what is written from definitions is current. */
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }
import { parseCatalog } from '../../src/catalog/file.ts'
import { allPresets } from '../../src/store/presets.ts'
import { loadProgram, WRITTEN } from './reference.ts'

const ROOT = join(import.meta.dir, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const inFolder = (folder: string) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(folder, name))
/** For users, and for maintainers. */
const USER_PAGES = ['README.md', 'CHANGELOG.md', ...inFolder('docs')]
const PAGES = [...USER_PAGES, 'src/README.md', 'src/REFERENCE.md', 'test/README.md', 'test/bench/README.md']

const withoutCode = (text: string) => text.replace(/^```.*?^```/gms, '')
const countWords = (text: string) => text.split(/\s+/).filter((word) => /\w/.test(word)).length
/** As GitHub names them. */
const anchorsOf = (text: string) =>
  [...withoutCode(text).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  )

test.each(PAGES)('every link of %s leads to a file, and to a heading in it', (page) => {
  const text = read(page)
  const links = [...text.matchAll(/\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g)]
    .map(([, to, picture]) => String(to ?? picture))
    .filter((to) => !/^https?:/.test(to))
  const broken = links.filter((to) => {
    const [path = '', anchor] = to.split('#')
    const target = path === '' ? page : relative(ROOT, join(ROOT, dirname(page), path))
    if (!existsSync(join(ROOT, target))) return true
    return anchor !== undefined && target.endsWith('.md') && !anchorsOf(read(target)).includes(anchor)
  })
  expect(broken).toEqual([])
})

test('every page of the docs is linked from the README, or from a page that is', () => {
  const reached = new Set(['README.md'])
  for (const page of reached)
    for (const [, to = ''] of read(page).matchAll(/\]\(([^)\s#]+\.md)[)#]/g)) {
      const target = relative(ROOT, join(ROOT, dirname(page), to))
      if (existsSync(join(ROOT, target))) reached.add(target)
    }
  expect(inFolder('docs').filter((page) => !reached.has(page))).toEqual([])
})

test('pages are short enough to be read', () => {
  const maxOf = (page: string) => ({ 'README.md': 1_000, 'src/README.md': 1_500, 'CHANGELOG.md': 3_000 })[page] ?? 2_000
  const long = [...USER_PAGES, 'src/README.md'].filter((page) => countWords(read(page)) > maxOf(page))
  expect(long).toEqual([])
  expect(read('README.md').split('\n').length).toBeLessThanOrEqual(131)
})

describe.each(Object.entries(WRITTEN))('docs/reference/%s', (name, write) => {
  test('is what the definitions say: `bun run docs` writes it', async () => {
    expect(read(join('docs/reference', name))).toBe(await write())
  })
})

test('every command in the docs exists, with its options', async () => {
  const program = await loadProgram()
  const lines = PAGES.flatMap((page) =>
    [...read(page).matchAll(/^```sh.*?\n(.*?)^```/gms)].flatMap(([, block = '']) =>
      block
        .replaceAll('\\\n', ' ')
        .split('\n')
        .map((line) => ({ page, line })),
    ),
  ).flatMap(({ page, line }) => {
    const [, words] = /(?:^|[|&;(] *)(?:tollgate|npx -y bun@1\.4\.5 src\/main\.ts) +([^#|&;]*)/.exec(line.trim()) ?? []
    return words === undefined ? [] : [{ page, words: words.trim().split(/\s+/) }]
  })
  expect(lines.length).toBeGreaterThan(20)
  const wrong = lines.flatMap(({ page, words }) => {
    let command = program
    let path = 0
    for (const word of words) {
      const next = command.commands.find((one) => one.name() === word)
      if (!next) break
      command = next
      path++
    }
    const known = [...command.options, ...program.options].filter(({ hidden }) => !hidden)
    // What stands behind `--` is for another program.
    const own = words.slice(path, words.includes('--') ? words.indexOf('--') : undefined)
    const unknown = own
      .filter((word) => /^--?[a-z]/.test(word))
      .map((word) => word.replace(/=.*/, ''))
      .filter((word) => word !== '--help' && !known.some(({ long, short }) => word === long || word === short))
    const isCommand = path > 0 || words[0]?.startsWith('--')
    return isCommand && unknown.length === 0 ? [] : [`${page}: tollgate ${words.join(' ')}`]
  })
  expect(wrong).toEqual([])
})

test('every catalog in the docs is valid, and warns only about variables that are not set', async () => {
  const catalogs = USER_PAGES.flatMap((page) =>
    [...read(page).matchAll(/^```yaml\n(.*?)^```/gms)].map(([, text = '']) => ({ page, text })),
  ).filter(({ text }) => /^version:/m.test(text))
  expect(catalogs.length).toBeGreaterThan(0)
  for (const { page, text } of catalogs) {
    const { warnings } = await parseCatalog(text, { name: page, environment: {} })
    expect(warnings.filter((warning) => !warning.includes('is not set'))).toEqual([])
  }
})

test('every preset of a provider is listed, with its variable', () => {
  const listed = [...read('docs/providers.md').matchAll(/^\| [^|]+ \| `([\w-]+)` \| `([A-Z_]+)` \|$/gm)].map(
    ([, name, variable]) => [name, variable],
  )
  const hosted = Object.entries(allPresets()).filter(([, { local }]) => local === undefined)
  expect(Object.fromEntries(listed)).toEqual(Object.fromEntries(hosted.map(([name, { env }]) => [name, env])))
})

test('every dependency is listed, in its version', () => {
  const rows = read('docs/internals.md').matchAll(/^\| `([^`]+)` +\| ([\d.]+) +\|/gm)
  const listed = [...rows].map(([, name, version]) => [name, version])
  const { dependencies, devDependencies } = manifest
  expect(Object.fromEntries(listed)).toEqual({ ...dependencies, ...devDependencies })
})

test('every script that is named is one', () => {
  const named = PAGES.flatMap((page) => [...read(page).matchAll(/\bbun(?:@1\.4\.5)? run ([\w:]+)/g)])
  const known = Object.keys(manifest.scripts)
  expect(named.map(([, name]) => String(name)).filter((name) => !known.includes(name))).toEqual([])
})

test('the map has every folder and file at the top of src, and nothing else', () => {
  const [, map = ''] = /```\n([\s\S]*?)```/.exec(read('src/README.md')) ?? []
  const mapped = [...map.matchAll(/^(\S+?)\/? +\S/gm)].map(([, name]) => String(name))
  const there = readdirSync(join(ROOT, 'src')).filter((name) => !/\.d\.ts$|\.md$/.test(name))
  expect(mapped.sort()).toEqual(there.sort())
})

test('nothing that is kept names a registry', () => {
  expect(read('bun.lock')).not.toMatch(/https?:/)
})
