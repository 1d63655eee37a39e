/** What a drawer shows in the place of its facts while they are changed. */
import type { ComponentChildren } from 'preact'
import { Button } from './button.tsx'
import { Form, type FormState } from './form.tsx'

interface EditFormProps<Values extends Record<string, string>> {
  of: FormState<Values>
  onCancel(): void
  children: ComponentChildren
}

export const EditForm = <Values extends Record<string, string>>({ of, onCancel, children }: EditFormProps<Values>) => (
  <Form
    of={of}
    submit="Save"
    beside={
      <Button kind="quiet" onClick={onCancel}>
        Cancel
      </Button>
    }
  >
    {children}
  </Form>
)
