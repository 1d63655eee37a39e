/** Page frame: heading, tab title, focus, and actions. */
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { address, toHref } from '../address/address.ts'
import { may } from '../api/session.ts'
import { type FieldWarning, Form, type FormState } from '../ui/form.tsx'

let shownPath: string | null = null

interface PageFrameProps {
  title: string
  /** Above the heading, such as a link back to the list. */
  above?: ComponentChildren
  actions?: ComponentChildren
  children: ComponentChildren
}

export function Page({ title, above, actions, children }: PageFrameProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} · Tollgate`
  }, [title])
  // Before the page is painted, so that focus is not taken from a field the user has moved to.
  useLayoutEffect(() => {
    const { path } = address.peek()
    // Not on the first page load, where the browser restores focus and scroll position.
    if (shownPath !== null && shownPath !== path && !document.querySelector('[autofocus]')) {
      heading.current?.focus({ preventScroll: true })
      scrollTo(0, 0)
    }
    shownPath = path
  }, [])
  return (
    <>
      {above && <p class="page-above">{above}</p>}
      <header class="page-head">
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {actions && <div class="page-actions">{actions}</div>}
      </header>
      {children}
    </>
  )
}

export const NotForYou = () => (
  <Page title="No access">
    <p>You don't have access to this page.{!may('owner') && ' Ask an owner to change your role.'}</p>
  </Page>
)

interface FormPageProps<Values extends Record<string, string>> {
  title: string
  /** The list to go back to. */
  list: readonly [path: string, title: string]
  form: FormState<Values>
  submit: string
  warnings?: readonly FieldWarning[]
  children: ComponentChildren
}

export const FormPage = <Values extends Record<string, string>>({
  title,
  list: [path, listTitle],
  form,
  submit,
  warnings = [],
  children,
}: FormPageProps<Values>) => (
  <Page title={title} above={<a href={toHref(path)}>{listTitle}</a>}>
    <div class="panel narrow">
      <Form of={form} submit={submit} warnings={warnings} otherActions={<a href={toHref(path)}>Cancel</a>}>
        {children}
      </Form>
    </div>
  </Page>
)
