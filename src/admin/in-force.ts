/** What a controller has changed is in force before it is told of: whoever has a new key may use it at once. */
import type { AdminDeps } from './deps.ts'

/** A hook of controllers whose changes requests go by. */
export const inForce =
  ({ serving }: Pick<AdminDeps, 'serving'>) =>
  async ({ request }: { request: Request }): Promise<void> => {
    if (request.method === 'GET') return
    // What cannot be read now is taken in as soon as it can, and the log has why.
    await serving.refresh().catch(() => {})
  }
