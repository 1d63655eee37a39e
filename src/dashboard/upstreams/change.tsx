/** An upstream changed or removed by an owner, after a look at what that changes. */
import type { ShownUpstream } from '../../documents/upstream.ts'
import { PlannedForm } from '../catalog/planned-form.tsx'
import { useOpened } from '../ui/form.tsx'
import { tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { deleteUpstream, editUpstream } from './data.ts'
import { Moving, UpstreamFields } from './fields.tsx'
import { losesCredential, toUpstreamValues } from './form-values.ts'

interface ChangeProps {
  of: ShownUpstream
  onClose(): void
}

export function EditUpstream({ of, onClose }: ChangeProps) {
  const upstream = useOpened(of)
  return (
    <Overlay title={`Edit ${upstream.id}`} onClose={onClose}>
      <PlannedForm
        initial={toUpstreamValues(upstream)}
        send={(values, isPlan) => editUpstream(upstream, values, isPlan)}
        fields={(form) => <UpstreamFields form={form} before={upstream} />}
        warn={(values) => losesCredential(values, upstream) && <Moving of={upstream} />}
        apply="Change it"
        onDone={() => {
          tell(`${upstream.id} is changed.`)
          onClose()
        }}
        onCancel={onClose}
      />
    </Overlay>
  )
}

/** @param onGone once it is not there any more. */
export function RemoveUpstream({ of, onClose, onGone }: ChangeProps & { onGone(): void }) {
  const upstream = useOpened(of)
  const { id } = upstream
  return (
    <Overlay title={`Remove ${id}`} onClose={onClose}>
      <PlannedForm
        initial={{}}
        send={(_, isPlan) => deleteUpstream(upstream, isPlan)}
        fields={() => (
          <p>
            Its credential goes, and every route that leads to it. What was asked of it stays on record. To keep it for
            later, edit it to be out of use instead.
          </p>
        )}
        apply={`Remove ${id}`}
        kind="bad"
        onDone={() => {
          tell(`${id} is removed.`)
          onGone()
        }}
        onCancel={onClose}
      />
    </Overlay>
  )
}
