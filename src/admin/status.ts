/** How the server is doing, and who can ask nothing any more or soon: `/admin/api/status`. */
import { Elysia } from 'elysia'
import { checkKeys } from '../documents/checks.ts'
import { Status, type StatusDocument } from '../documents/server.ts'
import { access } from './access.ts'
import type { AdminDeps } from './deps.ts'

export const statusController = ({ store, reports, serving, now }: AdminDeps) =>
  new Elysia({ name: 'status' }).use(access()).get(
    '/status',
    async ({ asker }): Promise<StatusDocument> => {
      const [status, rows, key, team] = await Promise.all([
        serving.status(),
        store.readKeys(),
        reports.standings(asker, 'key'),
        reports.standings(asker, 'team'),
      ])
      return { ...status, checks: checkKeys(rows, (kind) => ({ key, team })[kind], now()) }
    },
    {
      route: {
        least: 'viewer',
        summary: 'Tells how the server is doing, and which keys and budgets are near their end',
        answer: Status,
      },
    },
  )
