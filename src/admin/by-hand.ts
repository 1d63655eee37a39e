/** Changes of the catalogue by hand, as its controllers have them done: made, or with `?plan=true` only told. */
import type { EditBy, Edited } from '../catalog/edit.ts'
import { toEditDocument } from '../documents/catalog.ts'
import type { Principal } from '../identity/principal.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'

/** Makes what does such a change, or plans it, and tells what it changes; from then on the server goes by it. */
export function changesByHand({ serving, now }: Pick<AdminDeps, 'serving' | 'now'>) {
  const by = actors({ now })
  return async <Made extends Edited>(
    principal: Principal,
    { plan: isPlan = false }: { plan?: boolean },
    work: (by: EditBy) => Promise<Made>,
  ) => {
    const edited = await work({ ...by(principal), isPlan })
    if (!isPlan) await serving.refresh()
    return { planned: isPlan, ...toEditDocument(edited) }
  }
}
