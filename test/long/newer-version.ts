/** The next version of Tollgate: this one with another migration of each store, as `9.9.9`. */
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const REPOSITORY = resolve(import.meta.dir, '../..')
export const NEWER_VERSION = '9.9.9'

/** Writes its source to `tree`, which must not exist. Returns its command line. */
export function createNewer(tree: string, migrations: { sqlite: string; postgres?: string }): string[] {
  mkdirSync(tree)
  for (const name of ['src', 'drizzle', 'postgres', 'package.json', 'catalog.yaml', 'tsconfig.json'])
    cpSync(join(REPOSITORY, name), join(tree, name), { recursive: true })
  symlinkSync(join(REPOSITORY, 'node_modules'), join(tree, 'node_modules'))
  edit(join(tree, 'package.json'), /"version": ".*"/, `"version": "${NEWER_VERSION}"`)
  const add = (folder: string, list: string, sql: string) => {
    writeFileSync(join(tree, folder, '9999_next.sql'), sql)
    const from = `import next from '../../../${folder}/9999_next.sql' with { type: 'text' }\n`
    edit(join(tree, list), 'import { ServiceError }', `${from}import { ServiceError }`)
    edit(join(tree, list), /^\]$/m, "  { name: '9999_next', sql: next },\n]")
  }
  add('drizzle', 'src/store/sqlite/migrate.ts', migrations.sqlite)
  if (migrations.postgres) add('postgres', 'src/store/postgres/migrate.ts', migrations.postgres)
  return [process.execPath, join(tree, 'src/main.ts')]
}

function edit(path: string, what: string | RegExp, by: string): void {
  const text = readFileSync(path, 'utf8')
  const edited = text.replace(what, by)
  if (edited === text) throw new Error(`${path} has no ${what}`)
  writeFileSync(path, edited)
}
