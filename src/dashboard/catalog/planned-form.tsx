/** A form of which one sees what it would change before it is done. */
import { type ComponentChildren, Fragment } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Refusal } from '../api/refusal.ts'
import { Button } from '../ui/button.tsx'
import { Form, type FormState, useForm } from '../ui/form.tsx'
import { Plan, type Planned } from './plan.tsx'

interface PlannedFormProps<Values extends Record<string, string>> {
  initial: Values
  /** Plans it, or does it. @param planned what was shown before it is done. */
  send(values: Values, isPlan: boolean, planned: Planned | null): Promise<Planned & { differs?: boolean }>
  fields(form: FormState<Values>): ComponentChildren
  /** What is said beside the plan, where a change has a consequence of its own. */
  warn?(values: Values): ComponentChildren
  /** What does it. */
  apply: string
  /** For what takes something away. */
  kind?: 'main' | 'bad'
  onDone(values: Values): void
  onCancel?: () => void
}

export function PlannedForm<Values extends Record<string, string>>(props: PlannedFormProps<Values>) {
  const { initial, send, fields, warn, apply, kind = 'main', onDone, onCancel } = props
  const [plan, setPlan] = useState<Planned | null>(null)
  const form = useForm(initial, async (values) => {
    const answer = await send(values, true, null)
    if (!toDiffers(answer)) throw new Refusal('Nothing would change by that.', 'same')
    setPlan(answer)
  })
  const doing = useForm({}, async () => {
    await send(form.values.value, false, plan)
    onDone(form.values.value)
  })
  const cancel = onCancel && <Button onClick={onCancel}>Cancel</Button>
  if (plan === null)
    return (
      <Form key="form" of={form} submit="See what would change" beside={cancel}>
        {fields(form)}
      </Form>
    )
  return (
    <Fragment key="plan">
      <PlanHeading />
      <Plan of={plan} />
      {warn?.(form.values.value)}
      <Form of={doing} submit={apply} kind={kind} beside={<Button onClick={() => setPlan(null)}>Back</Button>}>
        {null}
      </Form>
    </Fragment>
  )
}

const toDiffers = ({ differs, changes, adoptions, left = [] }: Planned & { differs?: boolean }) =>
  differs ?? changes.length + adoptions.length + left.length > 0

/** Where the focus goes when the plan has come. */
function PlanHeading() {
  const at = useRef<HTMLHeadingElement>(null)
  useEffect(() => at.current?.focus(), [])
  return (
    <h2 ref={at} tabIndex={-1}>
      What would change
    </h2>
  )
}
