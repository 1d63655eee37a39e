/**
 * Chat for whoever has signed in: `POST /admin/api/playground` takes and answers what `/v1/chat/completions` does, errors included,
 * by a key that nobody else can use. Limits, budgets and the ledger know it like any other.
 */
import { Elysia } from 'elysia'
import type { Key } from '../domain/snapshot.ts'
import { chatOperation } from '../http/openapi/operations.ts'
import { takePlaygroundKey } from '../identity/own-keys.ts'
import type { Principal } from '../identity/principal.ts'
import { access, PLAYGROUND, requireSession } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { AdminError } from './errors.ts'

export function playgroundController({ identity, serving, now }: AdminDeps) {
  const keyOf = async ({ id, teamId }: Principal): Promise<Key> => {
    const known = serving.playgroundKey(id)
    if (known && known.revokedMs === null && known.teamId === teamId) return known
    const taken = await takePlaygroundKey(identity, id, { actor: id, nowMs: now() })
    // Its team and its limits, too, must be in force before anything is asked by it.
    await serving.refresh()
    const key = taken && serving.playgroundKey(id)
    if (key && key.revokedMs === null) return key
    throw new AdminError(401, 'signed_out', 'Sign in first.')
  }

  return new Elysia({ name: 'playground' }).use(access()).post(
    PLAYGROUND,
    async ({ request, headers, principal }) => {
      requireSession(principal)
      return serving.chat(request, headers, await keyOf(principal))
    },
    {
      route: {
        least: 'member',
        except: 'viewer',
        summary: 'Has a model answer, as `/v1/chat/completions` does',
        description:
          'By a key of their own that has no secret: metered, limited and on record like any other. Viewers have none. Of a request that was let in, errors are those of `/v1`, in their shape.',
        answer: null,
        operation: chatOperation,
        ownErrors: { no_session: 403 },
      },
      parse: 'none',
    },
  )
}
