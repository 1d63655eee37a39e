/**
 * Backups: `/admin/api/backups`, for owners: what is in one is everything but the secret of the data folder. One is made by a process
 * of its own, and the list tells when it is there.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { TextOrNull } from '../documents/fields.ts'
import { Backup, toBackupDocument } from '../documents/server.ts'
import { access } from './access.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'

export function backupsController({ backups, ...deps }: AdminDeps) {
  const by = actors(deps)

  return new Elysia({ name: 'backups' })
    .use(access())
    .get('/backups', async () => ({ backups: (await backups.list()).map(toBackupDocument), ...backups.state() }), {
      route: {
        least: 'owner',
        summary: 'Lists backups, and what became of the last that was begun',
        answer: Type.Object({ backups: Type.Array(Backup), making: TextOrNull, failed: TextOrNull }),
      },
    })
    .post('/backups', async ({ principal, status }) => status(202, { making: await backups.begin(by(principal)) }), {
      route: {
        least: 'owner',
        summary: 'Begins to make a backup: the list tells when it is there',
        answer: null,
        operation: {
          responses: {
            202: {
              description: 'It is being made.',
              content: { 'application/json': { schema: Type.Object({ making: Type.String() }) } },
            },
          },
        },
        errors: ['backup_under_way'],
      },
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
      {
        route: {
          least: 'owner',
          summary: 'Downloads a backup: everything but the secret of the data folder',
          answer: null,
          operation: { responses: { 200: { description: 'The file.', content: { 'application/vnd.sqlite3': {} } } } },
          errors: ['backup_not_found'],
        },
      },
    )
}
