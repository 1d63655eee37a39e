/** Pages for maintainers name files that exist. */
import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dir, '../..')

test.each(['src/README.md', 'docs/internals/changes.md', 'test/README.md'])(
  'every file that %s names exists',
  (page) => {
    const text = readFileSync(join(ROOT, page), 'utf8')
    const names = [...text.matchAll(/`([\w./-]+\/[\w.-]+\.(?:tsx?|yaml))`/g)].map(([, name]) => String(name))
    expect(names.length).toBeGreaterThan(2)
    const isThere = (name: string) => ['src', '.', 'test'].some((folder) => existsSync(join(ROOT, folder, name)))
    expect(names.filter((name) => !isThere(name))).toEqual([])
  },
)
