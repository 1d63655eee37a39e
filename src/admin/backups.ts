/**
 * Backups: `/admin/api/backups`, for owners: what is in one is everything but the secret of the data folder. One is made by a process
 * of its own, and the list tells when it is there.
 */
import { Elysia } from 'elysia'
import { toBackupDocument } from '../documents/backup.ts'
import { access } from './access.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'

export function backupsController({ backups, ...deps }: AdminDeps) {
  const by = actors(deps)

  return new Elysia({ name: 'backups' })
    .use(access())
    .get('/backups', async () => ({ backups: (await backups.list()).map(toBackupDocument), ...backups.state() }), {
      least: 'owner',
    })
    .post('/backups', async ({ principal, status }) => status(202, { making: await backups.begin(by(principal)) }), {
      least: 'owner',
    })
    .get(
      '/backups/:name',
      async ({ principal, params: { name } }) => {
        const found = await backups.take(name, by(principal))
        return new Response(Bun.file(found.path), {
          headers: {
            'content-type': 'application/vnd.sqlite3',
            'content-length': String(found.bytes),
            'content-disposition': `attachment; filename="${found.name.replaceAll(/[^\w.-]/g, '_')}"`,
          },
        })
      },
      { least: 'owner' },
    )
}
