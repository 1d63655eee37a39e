/**
 * The map of the code, enforced: who may import whom, who may touch the outside world, and how deep folders go. The
 * table is that of src/README.md, so that what a maintainer reads is what holds; `(types)` behind a name allows types only.
 */
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join, normalize } from 'node:path'

const ROOT = join(import.meta.dir, '..')
const SRC = join(ROOT, 'src')

/** At the bottom: anyone may import these. */
const SHARED = new Set(['log', 'config', 'settings'])

interface Import {
  from: string
  to: string
  /** Whether it is gone once compiled. */
  typesOnly: boolean
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.tsx?$/.test(name) && !name.endsWith('.d.ts'))
  .map((name) => ({ name, text: readFileSync(join(SRC, name), 'utf8') }))

const withoutComments = (text: string) => text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')

/** The folder of a path below src/, or the name of a file that stands in none. */
const toFolder = (path: string) => (path.includes('/') ? path.slice(0, path.indexOf('/')) : path.replace(/\.tsx?$/, ''))

const STATIC = /\b(import|export)\s+(type\s+)?([^'";]*?)\s*from\s+'([^']+)'/g
const DYNAMIC = /\b(?:import|require)\(\s*'([^']+)'\s*\)|new URL\(\s*'([^']+)'\s*,\s*import\.meta|\bimport\s+'([^']+)'/g

function importsOf({ name, text }: { name: string; text: string }): Import[] {
  const code = withoutComments(text)
  const found: Import[] = []
  for (const [, , type, names = '', to = ''] of code.matchAll(STATIC)) {
    const listed = /^\{([^}]*)\}$/.exec(names.trim())?.[1]
    const each = listed?.split(',').filter((one) => one.trim() !== '')
    found.push({
      from: name,
      to,
      typesOnly: type !== undefined || (each?.every((one) => /^\s*type\s/.test(one)) ?? false),
    })
  }
  for (const [, a, b, c] of code.matchAll(DYNAMIC)) found.push({ from: name, to: a ?? b ?? c ?? '', typesOnly: false })
  return found
}

const imports = files.flatMap(importsOf)

/** Reads the table: folder -> folder -> whether values, too, may be imported. */
function readTable(markdown: string): Map<string, Map<string, 'all' | 'types'>> {
  const lines = markdown.split('\n')
  const start = lines.findIndex((line) => /^\|\s*folder\s*\|\s*may import\s*\|/.test(line))
  const table = new Map<string, Map<string, 'all' | 'types'>>()
  if (start === -1) return table
  for (const line of lines.slice(start + 2)) {
    if (!line.startsWith('|')) break
    const [, folders = '', targets = ''] = line.replaceAll('`', '').split('|')
    const allowed = targets
      .split(',')
      .map((one) => /^\s*([\w.-]+)\s*(\(types\))?\s*$/.exec(one))
      .flatMap((one): [string, 'all' | 'types'][] => (one?.[1] ? [[one[1], one[2] ? 'types' : 'all']] : []))
    for (const folder of folders.split(',')) table.set(folder.trim(), new Map(allowed))
  }
  return table
}

const table = readTable(readFileSync(join(SRC, 'README.md'), 'utf8'))

describe('imports', () => {
  test('are found in all their forms', () => {
    const text = [
      "import { a } from './a.ts'",
      "import type { B } from '../store/b.ts'",
      "import { type C, type D } from './c.ts'",
      "import { type E, f } from './e.ts'",
      "export { g } from './g.ts'",
      "const h = await import('./h.ts')",
      "new Worker(new URL('./i.ts', import.meta.url))",
      "// import { j } from './j.ts'",
    ].join('\n')
    const found = importsOf({ name: 'x.ts', text })
    expect(found.map(({ to, typesOnly }) => `${to.slice(-4, -3)}${typesOnly ? ' types' : ''}`).sort()).toEqual([
      'a',
      'b types',
      'c types',
      'e',
      'g',
      'h',
      'i',
    ])
    expect(imports.length).toBeGreaterThan(200)
  })

  test('stay within the table', () => {
    const broken = imports
      .filter(({ to }) => to.startsWith('.'))
      .map((each) => ({ ...each, target: normalize(join(each.from, '..', each.to)) }))
      .filter(({ target }) => /\.tsx?$/.test(target) && !target.startsWith('..'))
      .filter(({ from, target, typesOnly }) => {
        const [own, other] = [toFolder(from), toFolder(target)]
        if (own === other || SHARED.has(other)) return false
        const allowed = table.get(own)?.get(other)
        return !(allowed === 'all' || (allowed === 'types' && typesOnly))
      })
      .map(({ from, target, typesOnly }) => `${from} imports ${typesOnly ? 'types of ' : ''}${target}`)
    expect(broken).toEqual([])
  })

  test('of what stands outside of src are data: SQL, YAML, a version', () => {
    const outside = imports.filter(
      ({ from, to }) => to.startsWith('.') && normalize(join(from, '..', to)).startsWith('..'),
    )
    for (const { to } of outside) expect(to).toMatch(/\.(sql|yaml|json)$/)
  })

  test('name their file with its ending', () => {
    for (const { to } of imports)
      if (to.startsWith('.')) expect(to).toMatch(/\.(tsx?|css|sql|lua|yaml|json|jsonl|json\.gz)$/)
  })

  test('every folder has its row', () => {
    const folders = new Set(files.map(({ name }) => toFolder(name)).filter((folder) => !SHARED.has(folder)))
    for (const folder of folders) expect([...table.keys()]).toContain(folder)
  })
})

test('only the HTTP surface knows Elysia, and the pages and commands its client', () => {
  const knowing = imports.filter(({ to }) => /^(elysia|@elysiajs\/)/.test(to)).map(({ from }) => toFolder(from))
  expect([...new Set(knowing)].filter((folder) => !['http', 'admin', 'dashboard', 'cli'].includes(folder))).toEqual([])
  const clients = imports.filter(({ from }) => /^(dashboard|cli)\//.test(from))
  expect(clients.filter(({ to }) => /^(elysia|@elysiajs\/(?!eden))/.test(to))).toEqual([])
})

test('only the contract knows a store, and only a store its database', () => {
  const databases = imports.filter(({ to }) => /^(drizzle-orm|bun:sqlite)/.test(to)).map(({ from }) => from)
  expect(databases.filter((from) => !from.startsWith('store/sqlite/'))).toEqual([])
  const clients = files.filter(({ text }) => /\bimport (type )?\{[^}]*\bSQL\b[^}]*\} from 'bun'/.test(text))
  expect(clients.map(({ name }) => name).filter((name) => !name.startsWith('store/postgres/'))).toEqual([])
  const knowing = imports.filter(({ from, to }) => to.includes('/sqlite/') && !from.startsWith('store/sqlite/'))
  expect([...new Set(knowing.map(({ from }) => from))].sort()).toEqual([
    'store/data-folder.ts',
    'store/open.ts',
    'store/refusal.ts',
  ])
})

const PURE =
  /^(domain\/|formats\/|upstreams\/(dialects\/|sse|failure)|routing\/|limits\/(?!shared\/)|gateway\/(structured-plan|json-check\.)|tokens\/(?!count))/
const IMPURE =
  /\bDate\.now\b|\bnew Date\(\)|\bperformance\.now\b|\bfetch\(|\bprocess\.|\bBun\.(env|file|serve|spawn)|\bMath\.random\b|\bsetTimeout\b/

test('pure files have no clock, no network, no environment and no database', () => {
  const pure = files.filter(({ name }) => PURE.test(name))
  expect(pure.length).toBeGreaterThan(8)
  for (const { name, text } of pure)
    expect(`${name} ${IMPURE.exec(withoutComments(text))?.[0] ?? 'is pure'}`).toEndWith('is pure')
  const names = new Set(pure.map(({ name }) => name))
  const reaching = imports.filter(
    ({ from, to, typesOnly }) => names.has(from) && !typesOnly && /^(bun|node):|drizzle/.test(to),
  )
  expect(reaching).toEqual([])
})

test('folders are at most two deep, those of dialects three, and nothing is exported by default or passed on by a barrel', () => {
  for (const { name, text } of files) {
    expect(name.split('/').length).toBeLessThanOrEqual(name.startsWith('upstreams/dialects/') ? 4 : 3)
    expect(`${name}: ${/\bexport default\b/.exec(withoutComments(text))?.[0] ?? 'named'}`).toEndWith('named')
    expect(`${name}: ${/^export \* from/m.exec(text)?.[0] ?? 'own'}`).toEndWith('own')
  }
})
