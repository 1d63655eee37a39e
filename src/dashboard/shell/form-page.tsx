/** A page on which something is made: a form, and the way back to the list of what there is. */
import type { ComponentChildren } from 'preact'
import { toHref } from '../address/address.ts'
import { Form, type FormState } from '../ui/form.tsx'
import { Page } from './page.tsx'

interface FormPageProps<Values extends Record<string, string>> {
  title: string
  /** The list: where it is, and what it is called. */
  list: readonly [path: string, title: string]
  form: FormState<Values>
  submit: string
  children: ComponentChildren
}

export const FormPage = <Values extends Record<string, string>>({
  title,
  list: [path, listTitle],
  form,
  submit,
  children,
}: FormPageProps<Values>) => (
  <Page title={title} above={<a href={toHref(path)}>{listTitle}</a>}>
    <div class="panel narrow">
      <Form of={form} submit={submit} beside={<a href={toHref(path)}>Cancel</a>}>
        {children}
      </Form>
    </div>
  </Page>
)
