/** Invites somebody: a name and a role, then the code for them. */
import { useState } from 'preact/hooks'
import { toHref } from '../address/address.ts'
import { Page } from '../shell/page.tsx'
import { ButtonLink } from '../ui/button.tsx'
import { Form, TextField, useForm } from '../ui/form.tsx'
import { announce } from '../ui/notice.tsx'
import { Coded } from './coded.tsx'
import { invite, NEW_PERSON } from './data.ts'
import { PersonFields } from './fields.tsx'

const above = <a href={toHref('/people')}>People</a>

export function InvitePage() {
  const [invited, setInvited] = useState<Awaited<ReturnType<typeof invite>> | null>(null)
  const form = useForm({ ...NEW_PERSON, name: '' }, async (values) => {
    setInvited(await invite(values))
    announce('The invitation is made. Copy it now: it is shown once.')
    scrollTo(0, 0)
  })
  if (invited) {
    return (
      <Page
        title={`Invitation for ${invited.name}`}
        above={above}
        actions={<ButtonLink href={toHref(`/people?person=${invited.id}`)}>I have kept it</ButtonLink>}
      >
        <Coded name={invited.name} code={invited.code} expiresMs={invited.code_expires_ms} />
      </Page>
    )
  }
  return (
    <Page title="Invite somebody" above={above}>
      <div class="panel narrow">
        <Form of={form} submit="Invite" beside={<a href={toHref('/people')}>Cancel</a>}>
          <TextField
            of={form}
            name="name"
            label="Name"
            hint="What they sign in as, such as their address of mail. No mail is sent."
            autoFocus
          />
          <PersonFields form={form} />
        </Form>
      </div>
    </Page>
  )
}
